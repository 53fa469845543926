-- Deleted counters whose rows of past and current periods have not been removed yet.
create table if not exists deleted_counter (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB
