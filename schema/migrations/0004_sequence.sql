create table if not exists sequence (
  id bigint unsigned not null auto_increment,
  namespace_id bigint unsigned not null,
  name varbinary(764) not null,
  version int unsigned not null default 1,
  created_at datetime(3) not null,
  primary key (id),
  unique key sequence_name (namespace_id, name)
) engine = InnoDB
