-- expands

-- Documents that keys may be bound to, and that a server may be limited to. `id` is what tools for clients call them by,
-- usually a hash of the text.
create table if not exists trusted_document (
  id varbinary(255) not null,
  text mediumblob not null,
  added_at datetime(3) not null,
  primary key (id)
) engine = InnoDB;

-- `documents` is a JSON list of the IDs that a key may run; null: any document.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'api_key' and column_name = 'documents'),
  'do 0',
  'alter table api_key add column documents mediumblob null');
prepare add_documents from @add;
execute add_documents;
deallocate prepare add_documents;
