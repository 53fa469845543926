-- expands

-- What open holds take of a counter, in its first row: the sums of their additions and of their subtractions, both from 0;
-- the instant by which they were last judged, which only rises; and an instant before which none expires (null: none is
-- open). Times are in milliseconds since 1970, by the database's clock. A database may stop between two statements of this
-- file, and start again with the first one.
--
-- Always: `held_up` and `held_down` are the sums of the rows in `hold` whose `open_until` is after `held_at`. A hold has
-- expired if its `open_until` is not after the database's clock, or not after `held_at`. So nobody has to write a row of
-- `hold` when it expires, and a clock that is put back, or behind that of another node, opens none again.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'counter_value' and column_name = 'held_up'),
  'do 0',
  'alter table counter_value
     add column held_up bigint not null default 0,
     add column held_down bigint not null default 0,
     add column held_at bigint not null default 0,
     add column first_expiry bigint null');
prepare add_held from @add;
execute add_held;
deallocate prepare add_held;

-- The part of a hold on each of its counters. Only the holder of the lock on the counter's first row changes it, and
-- changes that row as well. `open_until`: when it expires; null once it was confirmed or released. `expires_at`: the same,
-- but never null. `latest`: how far it can be extended. `results`: what its confirmation was asked for, and returned.
create table if not exists hold (
  token binary(16) not null,
  counter_id bigint unsigned not null,
  amount bigint not null,
  open_until bigint null,
  expires_at bigint not null,
  latest bigint not null,
  state tinyint unsigned not null default 0,
  results blob null,
  primary key (token, counter_id),
  key hold_open (counter_id, open_until, amount)
) engine = InnoDB;
