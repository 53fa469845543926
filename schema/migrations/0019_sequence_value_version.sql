-- Only sequences have a version; their groups need none.
alter table sequence_value
  drop column version
