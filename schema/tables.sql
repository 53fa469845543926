-- The tables as the migrations leave them. A test holds this file true.

-- What was done under an idempotency key, written by the transaction that did it. `hash` is that of the key and
-- its namespace, `fingerprint` that of what was asked, `answers` a JSON list of what each operation did; null
-- while its transaction is under way. `done_at` is by the clock of the process that did it, and what callers are told;
-- `claimed_at` is by the database's clock, by which its age is judged; null, where a version without that column wrote it.
-- No secondary unique key: writers deadlock on it.
create table idempotency_key (
  hash binary(32) not null,
  fingerprint binary(32) not null,
  done_at datetime(3) not null,
  answers mediumblob null,
  claimed_at datetime(3) null,
  primary key (hash),
  key idempotency_key_claimed_at (claimed_at)
) engine = InnoDB;

-- One row for each connection that flushes changes. Each transaction raises its `seq`, so that after a lost
-- connection the row tells whether the last one took effect. A look raises `epoch`: it must be a write.
create table lane (
  id bigint unsigned not null,
  seq bigint unsigned not null default 0,
  epoch bigint unsigned not null default 0,
  touched_at datetime not null,
  primary key (id)
) engine = InnoDB;

create table migration (
  name varbinary(255) not null,
  applied_at datetime not null,
  primary key (name)
) engine = InnoDB;

-- One row, which a process holds locked while it migrates the database.
create table migration_lock (
  id tinyint unsigned not null,
  primary key (id)
) engine = InnoDB;

-- Names are bytes, so that they are compared exactly on every server: 191 characters of at most 4 bytes.
-- `time_zone` and `periods` are what a counter gets that comes into being here.
create table namespace (
  id bigint unsigned not null auto_increment,
  name varbinary(764) not null,
  time_zone varbinary(64) not null default 'UTC',
  periods varbinary(255) not null default 'HOUR:90,DAY,MONTH',
  primary key (id),
  unique key namespace_name (name)
) engine = InnoDB;

-- What a counter is. `version` is that of its definition, from a random one on; the rows that count carry it too. What its value may
-- be: null is no bound. `saturates`: an addition that would cross a bound is applied as far as it fits.
-- Over how many rows it is spread, now and at most so far; the IANA name of the zone in which its periods begin; and
-- the periods of which it is kept what was added: for how many days, if not for ever (`:90`), and from when on they
-- are complete, if not from the beginning (`@` and milliseconds since 1970).
create table counter (
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

-- What a counter has counted, one row for each period and slot. Period 0 is all time: the value, which can be reset.
-- 1 to 5 are hour, day, week, month and year: what was added in the one that begins at `starts_at`. Who holds the
-- lock on the row of all time of a slot is the only one to change the others of that slot; so these need no version.
-- A row of all time counts for readers once it has a `created_at`. Its `revision` orders the states of the counter:
-- when it was made and, from its first change on, when that was, in microseconds since 2020, plus 1 for each applied
-- call that adds anything; in slots above 0 and in other periods only what was added. No secondary key: each costs
-- writers dearly.
create table counter_value (
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

-- The counters by value and by last change, a second behind `counter_value`, which has no such key: it would
-- cost writers dearly. `revision` is that of the row that was copied. Never changed: `updated_at` is 1970.
create table counter_rank (
  counter_id bigint unsigned not null,
  namespace_id bigint unsigned not null,
  value bigint not null,
  updated_at datetime(3) not null,
  revision bigint unsigned not null,
  primary key (counter_id),
  key counter_rank_value (namespace_id, value, counter_id),
  key counter_rank_updated_at (namespace_id, updated_at, counter_id)
) engine = InnoDB;

-- Counters that are deleted, and whose rows of past and running periods are still to be removed.
create table deleted_counter (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB;

-- When work that one process at a time does for all was begun last.
create table chore (
  name varbinary(64) not null,
  begun_at datetime not null,
  primary key (name)
) engine = InnoDB;

-- How the numbers of a sequence follow one another, and are written. Null is no bound, no format, and no period after
-- which it begins again. `eras` is a JSON list of the ways in which it has written numbers before it was changed.
-- Who issues numbers holds a shared lock on this row, who changes it an exclusive one: so nobody issues by an old
-- definition. `version` begins at random. `definitions` counts them. `uses` is raised on a cluster, where shared locks hold on one node only.
create table sequence (
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
  eras mediumblob null,
  uses int unsigned not null default 0,
  definitions int unsigned not null default 0,
  primary key (id),
  unique key sequence_name (namespace_id, name)
) engine = InnoDB;

-- The period in which a group has issued numbers last, the version of its sequence then, and how they were written.
-- Null: it has issued none yet. `identity` is drawn at random when it is made: after a failover that lost groups their
-- ids are given to others, and whoever still knows a lost one by its id must not meet its identity there. `revision` orders its states as that of a
-- counter does, together with the `definitions` of its sequence; `is_used`: whether anything was done in it yet.
create table sequence_group (
  id bigint unsigned not null auto_increment,
  sequence_id bigint unsigned not null,
  name varbinary(764) not null,
  latest_label int unsigned null,
  version int unsigned null,
  format varbinary(764) null,
  time_zone varbinary(64) null,
  identity int unsigned not null default 0,
  revision bigint unsigned not null default 0,
  is_used boolean not null default true,
  primary key (id),
  unique key sequence_group_name (sequence_id, name),
  key sequence_group_version (sequence_id, version)
) engine = InnoDB;

-- The last number that a group has issued, one row for each period in which it began anew: 2026, 202611, 20261121,
-- 2026112118, or 2026047 for a week. Label 0 is the row of a sequence that never does. `next_value` is the next number
-- where it does not follow from the last. `round` counts how often a group was told to begin elsewhere. `identity` is
-- that of the group.
create table sequence_value (
  group_id bigint unsigned not null,
  period_label int unsigned not null,
  value bigint null,
  revision bigint unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  next_value bigint null,
  round int unsigned not null default 0,
  identity int unsigned not null default 0,
  primary key (group_id, period_label)
) engine = InnoDB;

-- Numbers of gapless sequences that were reserved, in a round of their group. State: 0 open, until `expires_at`,
-- 1 confirmed, 2 released, 3 expired and reissued. `is_free`: released, and not reissued. Who holds the lock on
-- the row of the group is the only one to change its reservations.
create table reservation (
  token binary(16) not null,
  group_id bigint unsigned not null,
  period_label int unsigned not null,
  round int unsigned not null,
  value bigint not null,
  formatted blob not null,
  state tinyint unsigned not null default 0,
  is_free boolean not null default false,
  expires_at datetime(3) not null,
  closed_at datetime(3) null,
  primary key (token),
  key reservation_free (group_id, period_label, round, is_free, value),
  key reservation_held (group_id, period_label, round, state, value, expires_at),
  key reservation_open (group_id, state, expires_at),
  key reservation_closed (state, is_free, closed_at)
) engine = InnoDB;

-- Sequences that are deleted, and whose groups, numbers and reservations are still to be removed.
create table deleted_sequence (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB;
