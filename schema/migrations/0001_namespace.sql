-- Names are bytes, so that they are compared exactly on every server: 191 characters of at most 4 bytes.
create table if not exists namespace (
  id bigint unsigned not null auto_increment,
  name varbinary(764) not null,
  primary key (id),
  unique key namespace_name (name)
) engine = InnoDB
