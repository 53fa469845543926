-- expands

-- The namespaces whose leaderboards are read, and when a process last noted that it reads them, by the database's clock.
-- Processes copy the changes of other namespaces to the leaderboards once a minute only.
create table if not exists leaderboard_read (
  namespace_id bigint unsigned not null,
  read_at datetime not null,
  primary key (namespace_id)
) engine = InnoDB;
