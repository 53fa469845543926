-- That of the group: every statement that issues numbers checks it.
alter table sequence_value add column identity int unsigned not null default 0
