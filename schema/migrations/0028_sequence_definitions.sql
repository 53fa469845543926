-- Number of changes of the definition: part of the revision of each of the sequence's groups.
alter table sequence add column definitions int unsigned not null default 0
