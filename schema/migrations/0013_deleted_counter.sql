-- Counters that are deleted, and whose rows of past and running periods are still to be removed.
create table if not exists deleted_counter (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB
