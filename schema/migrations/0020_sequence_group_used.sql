-- Groups that issued numbers before these columns existed.
update sequence_group g
  join sequence s on s.id = g.sequence_id
  join sequence_value v on v.group_id = g.id and v.period_label = 0
   set g.latest_label = 0,
       g.version = s.version,
       g.time_zone = s.time_zone
 where v.value is not null and g.latest_label is null
