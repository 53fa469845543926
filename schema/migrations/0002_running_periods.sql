-- The running periods move into the row of the value. A database may stop between two statements of this file, and
-- start again with the first one: so the old table is renamed only if it still has its old columns.

set @rename = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'counter_value' and column_name = 'starts_at'),
  'rename table counter_value to counter_value_0001',
  'do 0');
prepare rename_old from @rename;
execute rename_old;
deallocate prepare rename_old;

-- Values of counters, one row for each slot. `added` is what was added in the period that begins at `start`, in seconds
-- since 1970; null: the period is not tracked, or nothing was added yet. Readers ignore a counter until its first slot
-- has a `created_at`. `revision` orders the states of the counter: the time of its creation, which the first change
-- replaces by its own, in microseconds since 2020, plus 1 for each applied call other than an addition of 0. In slots
-- above 0 it is the sum of these increments only. No secondary key: each would slow down every write.
create table if not exists counter_value (
  counter_id bigint unsigned not null,
  slot smallint unsigned not null,
  version int unsigned not null,
  value bigint not null default 0,
  revision bigint unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  hour_start int unsigned null,
  hour_added bigint null,
  day_start int unsigned null,
  day_added bigint null,
  week_start int unsigned null,
  week_added bigint null,
  month_start int unsigned null,
  month_added bigint null,
  year_start int unsigned null,
  year_added bigint null,
  primary key (counter_id, slot)
) engine = InnoDB;

-- Totals of periods. The total of a period is its row here plus the columns in `counter_value`, of all slots, with the
-- same start. 1 to 5 are hour, day, week, month and year. Rows are only added to. `start` is in seconds since 1970.
create table if not exists counter_history (
  counter_id bigint unsigned not null,
  period tinyint unsigned not null,
  start int unsigned not null,
  value bigint not null,
  primary key (counter_id, period, start)
) engine = InnoDB;

-- Missing if this file was interrupted after its last statement but one.
create table if not exists counter_value_0001 (
  counter_id bigint unsigned not null,
  period tinyint unsigned not null,
  starts_at datetime not null,
  slot smallint unsigned not null,
  version int unsigned not null,
  value bigint not null default 0,
  revision bigint unsigned not null default 0,
  created_at datetime(3) null,
  updated_at datetime(3) null,
  primary key (counter_id, period, starts_at, slot)
) engine = InnoDB;

-- The latest row of each tracked period and slot becomes the columns.
insert ignore into counter_value
  (counter_id, slot, version, value, revision, created_at, updated_at, hour_start, hour_added, day_start, day_added,
   week_start, week_added, month_start, month_added, year_start, year_added)
select v.counter_id, v.slot, v.version, v.value, v.revision, v.created_at, v.updated_at,
       timestampdiff(second, '1970-01-01', hour.starts_at), hour.value,
       timestampdiff(second, '1970-01-01', day.starts_at), day.value,
       timestampdiff(second, '1970-01-01', week.starts_at), week.value,
       timestampdiff(second, '1970-01-01', month.starts_at), month.value,
       timestampdiff(second, '1970-01-01', year.starts_at), year.value
  from counter_value_0001 v
  join counter c on c.id = v.counter_id
  left join counter_value_0001 hour
    on hour.counter_id = v.counter_id and hour.period = 1 and hour.slot = v.slot
   and concat(',', c.periods) like '%,HOUR%'
   and hour.starts_at = (select max(starts_at) from counter_value_0001 where counter_id = v.counter_id and period = 1 and slot = v.slot)
  left join counter_value_0001 day
    on day.counter_id = v.counter_id and day.period = 2 and day.slot = v.slot
   and concat(',', c.periods) like '%,DAY%'
   and day.starts_at = (select max(starts_at) from counter_value_0001 where counter_id = v.counter_id and period = 2 and slot = v.slot)
  left join counter_value_0001 week
    on week.counter_id = v.counter_id and week.period = 3 and week.slot = v.slot
   and concat(',', c.periods) like '%,WEEK%'
   and week.starts_at = (select max(starts_at) from counter_value_0001 where counter_id = v.counter_id and period = 3 and slot = v.slot)
  left join counter_value_0001 month
    on month.counter_id = v.counter_id and month.period = 4 and month.slot = v.slot
   and concat(',', c.periods) like '%,MONTH%'
   and month.starts_at = (select max(starts_at) from counter_value_0001 where counter_id = v.counter_id and period = 4 and slot = v.slot)
  left join counter_value_0001 year
    on year.counter_id = v.counter_id and year.period = 5 and year.slot = v.slot
   and concat(',', c.periods) like '%,YEAR%'
   and year.starts_at = (select max(starts_at) from counter_value_0001 where counter_id = v.counter_id and period = 5 and slot = v.slot)
 where v.period = 0;

-- All other rows become the history.
insert ignore into counter_history
select o.counter_id, o.period, greatest(0, timestampdiff(second, '1970-01-01', o.starts_at)), sum(o.value)
  from counter_value_0001 o
  left join counter_value v on v.counter_id = o.counter_id and v.slot = o.slot
 where o.period > 0
   and not coalesce(timestampdiff(second, '1970-01-01', o.starts_at) = case o.period
         when 1 then v.hour_start
         when 2 then v.day_start
         when 3 then v.week_start
         when 4 then v.month_start
         else v.year_start
       end, false)
 group by o.counter_id, o.period, o.starts_at;

drop table counter_value_0001;

-- No slots are left to be merged in the past.
set @drop = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'counter' and column_name = 'most_slots'),
  'alter table counter drop column most_slots',
  'do 0');
prepare drop_most_slots from @drop;
execute drop_most_slots;
deallocate prepare drop_most_slots;
