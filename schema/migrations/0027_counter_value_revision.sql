-- Revisions begin with a time from now on, so that what is deleted and made anew is newer. Those above are new already.
update counter_value
   set revision = revision + timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6))
 where period = 0 and starts_at = '1970-01-01' and slot = 0 and revision < 100000000000000
