-- Incremented on a Galera cluster when a group is first used in a period, so that this conflicts with a change of the
-- definition.
alter table sequence add column uses int unsigned not null default 0
