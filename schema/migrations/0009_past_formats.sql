-- expands

-- `past_formats` is a JSON list of what the texts of earlier formats look like, such as `INV-#`. Older versions read and
-- write `format_history` instead, which is read as well. `migrated_repeats`: this file has set `allow_repeats`.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'sequence' and column_name = 'past_formats'),
  'do 0',
  'alter table sequence
     add column past_formats mediumblob null,
     add column migrated_repeats boolean not null default false');
prepare add_past_formats from @add;
execute add_past_formats;
deallocate prepare add_past_formats;

-- Named sequence groups in a format without `{group}` have issued the texts of others: so they may go on. `{{` is a brace
-- of the text. Without a format, named groups have one, which numbers below 0 make ambiguous.
update sequence s
   set s.allow_repeats = true,
       s.migrated_repeats = true
 where not s.allow_repeats
   and if(s.format is null,
         s.start_value < 0 or (s.step < 0 and coalesce(s.min_value, -1) < 0)
           or (s.step > 0 and s.cycles and s.min_value < 0),
         replace(s.format, '{{', '') not like '%{group}%')
   and exists (
         select 1
           from sequence_group g
          where g.sequence_id = s.id and g.version > 0 and g.name > '');
