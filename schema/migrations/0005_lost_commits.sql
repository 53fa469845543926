-- expands

-- What processes noticed that the database lacks of what it had committed. While a row has no `accepted_at`, no process
-- issues numbers: those that were lost would be issued again. `id` is chosen at random by whoever noticed.
create table if not exists lost_commits (
  id bigint unsigned not null,
  noticed_at datetime(3) not null,
  what varbinary(764) not null,
  accepted_at datetime(3) null,
  primary key (id)
) engine = InnoDB;
