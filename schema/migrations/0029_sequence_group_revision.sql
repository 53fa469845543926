-- Existing groups count as used.
alter table sequence_group
  add column revision bigint unsigned not null default 0,
  add column is_used boolean not null default true
