-- The tables as the migrations leave them. A test holds this file true.

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

-- Names are bytes, so that they are compared exactly on every server: 191 characters of at most 4 bytes.
create table namespace (
  id bigint unsigned not null auto_increment,
  name varbinary(764) not null,
  primary key (id),
  unique key namespace_name (name)
) engine = InnoDB;

-- What a counter is. `version` is that of its definition; the rows that count carry it too.
create table counter (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  primary key (id),
  unique key counter_name (namespace_id, name)
) engine = InnoDB;

-- What a counter has counted, one row for each period and slot. Period 0 is all time.
-- A row counts for readers once its revision is above 0. No secondary key: each costs writers dearly.
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

create table sequence (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  created_at datetime(3) not null,
  primary key (id),
  unique key sequence_name (namespace_id, name)
) engine = InnoDB;

create table sequence_group (
  id bigint unsigned not null auto_increment,
  sequence_id bigint unsigned not null,
  name varbinary(764) not null,
  primary key (id),
  unique key sequence_group_name (sequence_id, name)
) engine = InnoDB;

-- The last number that a group has dealt, one row for each period in which it began anew.
-- Label 0 is the row of a sequence that never does. Otherwise shaped as counter_value.
create table sequence_value (
  group_id bigint unsigned not null,
  period_label int unsigned not null,
  version int unsigned not null,
  value bigint not null default 0,
  revision bigint unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  primary key (group_id, period_label)
) engine = InnoDB;
