-- The period in which a group has dealt numbers last, the version of its sequence then, and how they were written.
-- Null: it has dealt none yet.
alter table sequence_group
  add column latest_label int unsigned null,
  add column version int unsigned null,
  add column format varbinary(764) null,
  add column time_zone varbinary(64) null,
  add key sequence_group_version (sequence_id, version)
