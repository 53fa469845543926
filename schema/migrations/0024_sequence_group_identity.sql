-- Drawn at random when a group is made: an id that a failover has given to another group is known by it.
alter table sequence_group add column identity int unsigned not null default 0
