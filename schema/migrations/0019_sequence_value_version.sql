-- A version is that of a sequence; its groups need none.
alter table sequence_value
  drop column version
