-- Raised on a Galera cluster when a group is first used in a period, which so conflicts with a change of the definition.
alter table sequence add column uses int unsigned not null default 0
