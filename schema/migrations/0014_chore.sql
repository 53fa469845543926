-- When work that one process at a time does for all was begun last.
create table if not exists chore (
  name varbinary(64) not null,
  begun_at datetime not null,
  primary key (name)
) engine = InnoDB
