-- Defaults for new counters of a namespace: see 0012_counter_keeping.sql.
alter table namespace
  add column time_zone varbinary(64) not null default 'UTC',
  add column periods varbinary(255) not null default 'HOUR:90,DAY,MONTH'
