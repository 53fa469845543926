create table if not exists sequence_group (
  id bigint unsigned not null auto_increment,
  sequence_id bigint unsigned not null,
  name varbinary(764) not null,
  primary key (id),
  unique key sequence_group_name (sequence_id, name)
) engine = InnoDB
