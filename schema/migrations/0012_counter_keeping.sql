-- `slots`, `most_slots`: number of rows that a counter's value is split across, now and at most so far. `time_zone`:
-- IANA name of the zone in which its periods begin. `periods`: the tracked periods, each with its retention in days, if
-- not forever (`:90`), and the time from which its rows are complete, if not from the beginning (`@` and milliseconds
-- since 1970).
alter table counter
  add column slots smallint unsigned not null default 1,
  add column most_slots smallint unsigned not null default 1,
  add column time_zone varbinary(64) not null default 'UTC',
  add column periods varbinary(255) not null default 'HOUR:90,DAY,MONTH'
