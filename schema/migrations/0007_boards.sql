-- expands

-- Counters by the total of a period of their time zone, for the periods in `leaderboards` of their namespace.
-- `period_key` is the period: 2026, 202611, 20261121, 2026112118, or 2026047 for a week. A counter to which nothing was
-- added in a period, or whose additions sum to 0, has no row.
create table if not exists leaderboard_period (
  counter_id bigint unsigned not null,
  period_key int unsigned not null,
  namespace_id bigint unsigned not null,
  value bigint not null,
  primary key (counter_id, period_key),
  key leaderboard_period_value (namespace_id, period_key, value, counter_id)
) engine = InnoDB;

-- Blocks of large leaderboards, by which places are counted: `counters` is the number of rows that have `from_value`, or
-- more, up to the next block. `period_key` is 0 for the table `leaderboard`. Only the holder of the lock on the
-- namespace's row changes the rows and blocks of its leaderboards.
create table if not exists leaderboard_block (
  namespace_id bigint unsigned not null,
  period_key int unsigned not null,
  from_value bigint not null,
  counters bigint not null,
  primary key (namespace_id, period_key, from_value)
) engine = InnoDB;

-- The periods for which leaderboards are kept, such as `DAY,MONTH`, and those that already have the counters which existed
-- before. A database may stop after the first statement, and start again with it.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'namespace' and column_name = 'leaderboards'),
  'do 0',
  'alter table namespace
     add column leaderboards varbinary(255) not null default '''',
     add column filled_leaderboards varbinary(255) not null default ''''');
prepare add_leaderboards from @add;
execute add_leaderboards;
deallocate prepare add_leaderboards;
