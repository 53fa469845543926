-- Definitions of counters. `version` changes with the definition; the rows in `counter_value` have it too.
create table if not exists counter (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  primary key (id),
  unique key counter_name (namespace_id, name)
) engine = InnoDB
