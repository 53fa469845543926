-- Reservations of gapless sequences, each in a generation (`round`) of its group. State: 0 open, until `expires_at`, 1
-- confirmed, 2 released, 3 expired and reissued. `is_free`: released, and not reissued. Only the holder of the lock on
-- the group's row changes its reservations.
create table if not exists reservation (
  token binary(16) not null,
  group_id bigint unsigned not null,
  period_label int unsigned not null,
  round int unsigned not null,
  value bigint not null,
  formatted blob not null,
  state tinyint unsigned not null default 0,
  is_free boolean not null default false,
  expires_at datetime(3) not null,
  closed_at datetime(3) null,
  primary key (token),
  key reservation_free (group_id, period_label, round, is_free, value),
  key reservation_held (group_id, period_label, round, state, value, expires_at),
  key reservation_open (group_id, state, expires_at),
  key reservation_closed (state, is_free, closed_at)
) engine = InnoDB
