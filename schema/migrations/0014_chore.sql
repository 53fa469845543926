-- When each scheduled job, which one process runs for all, last started.
create table if not exists chore (
  name varbinary(64) not null,
  begun_at datetime not null,
  primary key (name)
) engine = InnoDB
