-- The fences: one row for each writer (a connection that flushes). Each transaction increments `seq`, so that after a
-- lost connection the row shows whether the last one committed. Reading the fence then increments `epoch`, as it must
-- be a write.
create table if not exists lane (
  id bigint unsigned not null,
  seq bigint unsigned not null default 0,
  epoch bigint unsigned not null default 0,
  touched_at datetime not null,
  primary key (id)
) engine = InnoDB
