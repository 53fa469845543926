-- How the numbers of a sequence follow one another, and are written. Null is no bound, no format, and no period after
-- which it begins again. `eras` is a JSON list of the ways in which it has written numbers before it was changed.
alter table sequence
  add column is_defined boolean not null default false,
  add column start_value bigint not null default 1,
  add column step bigint not null default 1,
  add column min_value bigint null,
  add column max_value bigint null,
  add column cycles boolean not null default false,
  add column format varbinary(764) null,
  add column restart_every tinyint unsigned null,
  add column allow_repeats boolean not null default false,
  add column time_zone varbinary(64) not null default 'UTC',
  add column gapless boolean not null default false,
  add column eras mediumblob null
