-- expands

-- The mark: the revision of every counter and sequence group that has no row. It never falls. Its one row begins with the
-- time of this migration, in microseconds since 2020: so what an older server creates later is above it.
create table if not exists revision_mark (
  id tinyint unsigned not null,
  revision bigint unsigned not null,
  primary key (id)
) engine = InnoDB;

insert ignore into revision_mark
values (1, timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6)));

-- `revision_block` is the revision in units of 4194304. With its key, a deletion finds a bound of the revisions of a
-- sequence's groups without reading them. A key on `revision` itself would change with each number.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'sequence_group' and column_name = 'revision_block'),
  'do 0',
  'alter table sequence_group
     add column revision_block int unsigned generated always as (revision >> 22) stored,
     add key sequence_group_revision (sequence_id, revision_block)');
prepare add_block from @add;
execute add_block;
deallocate prepare add_block;
