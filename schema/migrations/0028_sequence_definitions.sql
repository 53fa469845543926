-- How often a sequence was defined: that is part of the revision of each of its groups.
alter table sequence add column definitions int unsigned not null default 0
