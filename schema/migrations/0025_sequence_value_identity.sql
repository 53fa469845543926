-- That of the group: whoever assigns numbers names it.
alter table sequence_value add column identity int unsigned not null default 0
