update sequence_group
   set revision = timestampdiff(microsecond, timestamp'2020-01-01 00:00:00', utc_timestamp(6))
 where revision = 0
