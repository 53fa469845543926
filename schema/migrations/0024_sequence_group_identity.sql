-- Chosen at random when a group is created: distinguishes it from a group that reuses its id after a failover.
alter table sequence_group add column identity int unsigned not null default 0
