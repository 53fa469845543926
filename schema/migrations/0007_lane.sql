-- One row for each connection that flushes changes. Each transaction raises its `seq`, so that after a lost
-- connection the row tells whether the last one took effect. A look raises `epoch`: it must be a write.
create table if not exists lane (
  id bigint unsigned not null,
  seq bigint unsigned not null default 0,
  epoch bigint unsigned not null default 0,
  touched_at datetime not null,
  primary key (id)
) engine = InnoDB
