-- Deleted sequences whose groups, numbers and reservations have not been removed yet.
create table if not exists deleted_sequence (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB
