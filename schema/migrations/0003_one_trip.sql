-- What a transaction changed that is sent in one round trip with its COMMIT: if the answer is lost, the writer reads it
-- here. A database may stop after the first statement, and start again with it.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'fence' and column_name = 'found'),
  'do 0',
  'alter table fence add column found mediumtext character set ascii null');
prepare add_found from @add;
execute add_found;
deallocate prepare add_found;
