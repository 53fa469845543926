-- All tables but `migration` and `migration_lock`, which the migration itself creates. A statement ends with `;` at the
-- end of a line, and may run again: a process may end before it has recorded the file as applied.

-- Results of calls with an idempotency key, written by the transaction that applied them. `hash` is that of the key and
-- its namespace, `fingerprint` that of the request, `results` a JSON list with the result of each operation; null while
-- its transaction is in flight. `applied_at` is returned to callers, by the clock of the process that applied the call.
-- `claimed_at`, by the database's clock, determines the age of the key. No secondary unique key: writers deadlock on it.
create table if not exists idempotency_key (
  hash binary(32) not null,
  fingerprint binary(32) not null,
  applied_at datetime(3) not null,
  results mediumblob null,
  claimed_at datetime(3) not null,
  primary key (hash),
  key idempotency_key_claimed_at (claimed_at)
) engine = InnoDB;

-- The fences: one row for each writer (a connection that flushes). Each transaction increments `seq`, so that after a
-- lost connection the row shows whether the last one committed. Reading the fence then increments `epoch`, as it must
-- be a write.
create table if not exists fence (
  id bigint unsigned not null,
  seq bigint unsigned not null default 0,
  epoch bigint unsigned not null default 0,
  touched_at datetime not null,
  primary key (id)
) engine = InnoDB;

-- Names are bytes, so that they are compared exactly on every server: 191 characters of at most 4 bytes. `time_zone`
-- and `periods` are the defaults for new counters, `time_zone` also for new sequences.
create table if not exists namespace (
  id bigint unsigned not null auto_increment,
  name varbinary(764) not null,
  time_zone varbinary(64) not null default 'UTC',
  periods varbinary(255) not null default 'HOUR:90,DAY,MONTH',
  primary key (id),
  unique key namespace_name (name)
) engine = InnoDB;

-- Definitions of counters. `version` starts at a random number and changes with the definition; the all-time rows in
-- `counter_value` have it too. `min_value`, `max_value`: null is no bound. `saturates`: an addition that would exceed a
-- bound is applied up to the bound. `slots`, `most_slots`: number of rows that the value is split across, now and at
-- most so far. `time_zone`: IANA name of the zone in which periods begin. `periods`: the tracked periods, each with its
-- retention in days, if not forever (`:90`), and the time from which its rows are complete, if not from the beginning
-- (`@` and milliseconds since 1970).
create table if not exists counter (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  min_value bigint null,
  max_value bigint null,
  saturates boolean not null default false,
  slots smallint unsigned not null default 1,
  most_slots smallint unsigned not null default 1,
  time_zone varbinary(64) not null default 'UTC',
  periods varbinary(255) not null default 'HOUR:90,DAY,MONTH',
  primary key (id),
  unique key counter_name (namespace_id, name)
) engine = InnoDB;

-- Values of counters, one row for each period and slot. Period 0 is all time: the value, which can be reset. 1 to 5 are
-- hour, day, week, month and year: what was added in the one that begins at `starts_at`. Only the holder of the lock on
-- a slot's all-time row changes the current periods of that slot, so these need no version. Readers ignore an all-time
-- row until it has a `created_at`. Its `revision` orders the states of the counter: the time of its creation, which the
-- first change replaces by its own, in microseconds since 2020, plus 1 for each applied call other than an addition of
-- 0. In slots above 0 it is the sum of these increments only; other periods don't use it. No secondary key: each would
-- slow down every write.
create table if not exists counter_value (
  counter_id bigint unsigned not null,
  period tinyint unsigned not null,
  starts_at datetime not null,
  slot smallint unsigned not null,
  version int unsigned not null,
  value bigint not null default 0,
  revision bigint unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  primary key (counter_id, period, starts_at, slot)
) engine = InnoDB;

-- Counters by value and by last change, a second behind `counter_value`, which has no such keys: they would slow down
-- every write. `revision` is that of the copied state. If the value never changed, `updated_at` is 1970.
create table if not exists leaderboard (
  counter_id bigint unsigned not null,
  namespace_id bigint unsigned not null,
  value bigint not null,
  updated_at datetime(3) not null,
  revision bigint unsigned not null,
  primary key (counter_id),
  key leaderboard_value (namespace_id, value, counter_id),
  key leaderboard_updated_at (namespace_id, updated_at, counter_id)
) engine = InnoDB;

-- Deleted counters whose rows of past and current periods have not been removed yet.
create table if not exists deleted_counter (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB;

-- When each scheduled job, which one process runs for all, last started.
create table if not exists scheduled_job (
  name varbinary(64) not null,
  started_at datetime not null,
  primary key (name)
) engine = InnoDB;

-- Definitions of sequences. Null is no bound, no format, and no restart. `format_history` is the format history: a JSON list of
-- the earlier formats in which it has issued numbers. A flush that issues numbers holds a shared lock on this row, a
-- change of the definition an exclusive one: so no number is issued by an outdated definition. `version` starts at a
-- random number. `definitions` counts the changes of the definition. `uses` is incremented on a cluster, where shared
-- locks hold on one node only.
create table if not exists sequence (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  created_at datetime(3) not null,
  is_defined boolean not null default false,
  start_value bigint not null default 1,
  step bigint not null default 1,
  min_value bigint null,
  max_value bigint null,
  cycles boolean not null default false,
  format varbinary(764) null,
  restart_every tinyint unsigned null,
  allow_repeats boolean not null default false,
  time_zone varbinary(64) not null default 'UTC',
  gapless boolean not null default false,
  format_history mediumblob null,
  uses int unsigned not null default 0,
  definitions int unsigned not null default 0,
  primary key (id),
  unique key sequence_name (namespace_id, name)
) engine = InnoDB;

-- Sequence groups. `latest_period_key`, `version`, `format` and `time_zone` are the period key of the latest numbers, and
-- the version, format and time zone of the sequence with which they were issued. Null: none issued yet. `identity` is
-- chosen at random when the group is created: after a failover that lost groups, their ids are reused, and a process
-- that cached a lost group must not find its identity there. `revision` orders the group's states as that of a counter
-- does, together with `definitions` of its sequence. `is_used`: whether any operation was applied to it yet.
create table if not exists sequence_group (
  id bigint unsigned not null auto_increment,
  sequence_id bigint unsigned not null,
  name varbinary(764) not null,
  identity int unsigned not null default 0,
  revision bigint unsigned not null default 0,
  is_used boolean not null default false,
  latest_period_key int unsigned null,
  version int unsigned null,
  format varbinary(764) null,
  time_zone varbinary(64) null,
  primary key (id),
  unique key sequence_group_name (sequence_id, name),
  key sequence_group_version (sequence_id, version)
) engine = InnoDB;

-- The last number of a sequence group, one row for each period in which it restarted. `period_key` is 2026, 202611,
-- 20261121, 2026112118, or 2026047 for a week; 0 if the sequence never restarts. `identity` is that of the group.
-- `next_value` is the next number if it does not follow from the last. `generation` counts the calls of
-- `restartSequence`. `definitions` is incremented by changes of the definition on a cluster, so that these conflict with
-- flushes that issue numbers.
create table if not exists sequence_value (
  group_id bigint unsigned not null,
  period_key int unsigned not null,
  identity int unsigned not null default 0,
  value bigint null,
  next_value bigint null,
  generation int unsigned not null default 0,
  definitions int unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  primary key (group_id, period_key)
) engine = InnoDB;

-- Reservations of gapless sequences, each in a generation of its group. State: 0 open, until `expires_at`, 1
-- confirmed, 2 released, 3 expired and reissued. `is_free`: released, and not reissued. Only the holder of the lock on
-- the group's row changes its reservations.
create table if not exists reservation (
  token binary(16) not null,
  group_id bigint unsigned not null,
  period_key int unsigned not null,
  generation int unsigned not null,
  value bigint not null,
  formatted blob not null,
  state tinyint unsigned not null default 0,
  is_free boolean not null default false,
  expires_at datetime(3) not null,
  closed_at datetime(3) null,
  primary key (token),
  key reservation_free (group_id, period_key, generation, is_free, value),
  key reservation_held (group_id, period_key, generation, state, value, expires_at),
  key reservation_open (group_id, state, expires_at),
  key reservation_closed (state, is_free, closed_at)
) engine = InnoDB;

-- Deleted sequences whose groups, numbers and reservations have not been removed yet.
create table if not exists deleted_sequence (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB;
