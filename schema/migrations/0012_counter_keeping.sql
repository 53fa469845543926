-- Over how many rows a counter's value is spread, now and at most so far; the IANA name of the zone in which its
-- periods begin; and the periods of which it is kept what was added: for how many days, if not for ever (`:90`),
-- and from when on they are complete, if not from the beginning (`@` and milliseconds since 1970).
alter table counter
  add column slots smallint unsigned not null default 1,
  add column most_slots smallint unsigned not null default 1,
  add column time_zone varbinary(64) not null default 'UTC',
  add column periods varbinary(255) not null default 'HOUR:90,DAY,MONTH'
