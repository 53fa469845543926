-- Sequences that are deleted, and whose groups, numbers and reservations are still to be removed.
create table if not exists deleted_sequence (
  id bigint unsigned not null,
  primary key (id)
) engine = InnoDB
