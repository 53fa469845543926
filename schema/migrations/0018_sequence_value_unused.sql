-- A row that had dealt nothing held a 0.
update sequence_value
   set value = null
 where revision = 0
