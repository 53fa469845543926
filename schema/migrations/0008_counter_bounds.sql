-- What a counter's value may be: null is no bound. `saturates`: an addition that would cross a bound is applied
-- as far as it fits, rather than refused.
alter table counter
  add column min_value bigint null,
  add column max_value bigint null,
  add column saturates boolean not null default false
