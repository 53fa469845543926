-- expands

-- When all subjects of a counter were last forgotten, in seconds since 1970, and later than each time before; 0: never.
-- Where subjects count once ever, it is their `start` in `counter_subject`. So what starts earlier was forgotten, whatever
-- the clocks of the processes showed when it was counted, and a sweep can delete it by the primary key.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'counter' and column_name = 'forgotten_at'),
  'do 0',
  'alter table counter add column forgotten_at int unsigned not null default 0');
prepare add_forgotten from @add;
execute add_forgotten;
deallocate prepare add_forgotten;
