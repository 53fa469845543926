-- The last number of a group is null before the first one. `next_value` is the next number if it does not follow from
-- the last. `round` is the generation: it counts the calls of `restartSequence`.
alter table sequence_value
  modify column value bigint null,
  add column next_value bigint null,
  add column round int unsigned not null default 0
