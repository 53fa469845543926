-- From now on revisions start with a time, so that a recreated counter is newer than the deleted one. Higher ones
-- already do. Joined by counter, as `counter_value` has no key by period.
update counter c
  join counter_value v on v.counter_id = c.id and v.period = 0 and v.starts_at = '1970-01-01' and v.slot = 0
   set v.revision = v.revision + timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6))
 where v.revision < 100000000000000
