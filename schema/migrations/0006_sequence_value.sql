-- The last number of a sequence group, one row for each period in which it restarted. Period 0 is that of a sequence
-- that never restarts. The other columns are those of `counter_value`.
create table if not exists sequence_value (
  group_id bigint unsigned not null,
  period_label int unsigned not null,
  version int unsigned not null,
  value bigint not null default 0,
  revision bigint unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  primary key (group_id, period_label)
) engine = InnoDB
