-- Counters by value and by last change, a second behind `counter_value`, which has no such keys: they would slow down
-- every write. `revision` is that of the copied state. If the value never changed, `updated_at` is 1970.
create table if not exists counter_rank (
  counter_id bigint unsigned not null,
  namespace_id bigint unsigned not null,
  value bigint not null,
  updated_at datetime(3) not null,
  revision bigint unsigned not null,
  primary key (counter_id),
  key counter_rank_value (namespace_id, value, counter_id),
  key counter_rank_updated_at (namespace_id, updated_at, counter_id)
) engine = InnoDB
