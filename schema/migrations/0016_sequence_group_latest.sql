-- The period key of the latest numbers of a group, and the version, format and time zone of its sequence with which
-- they were issued. Null: none issued yet.
alter table sequence_group
  add column latest_label int unsigned null,
  add column version int unsigned null,
  add column format varbinary(764) null,
  add column time_zone varbinary(64) null,
  add key sequence_group_version (sequence_id, version)
