-- What a counter has counted, one row for each period and slot. Period 0 is all time.
-- A row counts for readers once its revision is above 0. No secondary key: each costs writers dearly.
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
) engine = InnoDB
