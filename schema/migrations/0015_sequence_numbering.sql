-- Definition of a sequence: the order of its numbers, and their format. Null is no bound, no format, and no restart.
-- `eras` is the format history: a JSON list of the earlier formats in which it has issued numbers.
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
