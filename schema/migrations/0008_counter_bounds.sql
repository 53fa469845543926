-- Bounds of a counter's value; null is no bound. `saturates`: an addition that would exceed a bound is applied up to
-- the bound instead of being rejected.
alter table counter
  add column min_value bigint null,
  add column max_value bigint null,
  add column saturates boolean not null default false
