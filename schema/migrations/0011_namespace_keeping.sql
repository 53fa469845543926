-- What is kept of counters that come into being in a namespace, where nothing else is said: see counter_keeping.
alter table namespace
  add column time_zone varbinary(64) not null default 'UTC',
  add column periods varbinary(255) not null default 'HOUR:90,DAY,MONTH'
