-- The last number of a group is null before the first one; `next_value` is the next one where it does not follow.
-- `round` counts how often a group was told to begin elsewhere.
alter table sequence_value
  modify column value bigint null,
  add column next_value bigint null,
  add column round int unsigned not null default 0
