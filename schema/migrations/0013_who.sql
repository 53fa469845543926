-- expands

-- Who created an API key, and who revoked it: the prefix of a key, the subject of a token, ADMIN, or a user of the
-- operating system. Null: an earlier version did, or nobody has yet.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'api_key' and column_name = 'created_by'),
  'do 0',
  'alter table api_key add column created_by varbinary(1020) null, add column revoked_by varbinary(1020) null');
prepare add_who from @add;
execute add_who;
deallocate prepare add_who;
