-- What a counter is. `version` is that of its definition; the rows that count carry it too.
create table if not exists counter (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  primary key (id),
  unique key counter_name (namespace_id, name)
) engine = InnoDB
