-- expands

-- Whom a counter or a sequence counts once. `subject` is a hash of the subject, keyed by `subject_salt` of the counter or
-- sequence, which is random; null: no subject was counted yet. `once_per` is the period in which a subject counts once;
-- 0: ever. A database may stop between two statements of this file, and start again with the first one.
set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'counter' and column_name = 'once_per'),
  'do 0',
  'alter table counter
     add column once_per tinyint unsigned not null default 0,
     add column subject_salt binary(16) null');
prepare add_once from @add;
execute add_once;
deallocate prepare add_once;

set @add = if(
  exists (
    select 1
      from information_schema.columns
     where table_schema = database() and table_name = 'sequence' and column_name = 'subject_salt'),
  'do 0',
  'alter table sequence add column subject_salt binary(16) null');
prepare add_salt from @add;
execute add_salt;
deallocate prepare add_salt;

-- The subjects of counters, in the period that begins at `start`, in seconds since 1970 (period 0, start 0: ever), with
-- the value after the call that counted, and what was added in each tracked period until then. Only the holder of the
-- lock on the counter's first slot changes them. No secondary key: each would slow down every new subject.
create table if not exists counter_subject (
  counter_id bigint unsigned not null,
  period tinyint unsigned not null,
  start int unsigned not null,
  subject binary(16) not null,
  value bigint not null,
  counted_at datetime(3) not null,
  hour_added bigint null,
  day_added bigint null,
  week_added bigint null,
  month_added bigint null,
  year_added bigint null,
  primary key (counter_id, period, start, subject)
) engine = InnoDB;

-- The subjects of sequence groups, in a period of the sequence, with the number of each and its text. A restart in that
-- period begins another generation, in which a subject gets another number, in the same row.
create table if not exists sequence_subject (
  group_id bigint unsigned not null,
  period_key int unsigned not null,
  subject binary(16) not null,
  generation int unsigned not null,
  value bigint not null,
  formatted blob not null,
  issued_at datetime(3) not null,
  primary key (group_id, period_key, subject)
) engine = InnoDB;
