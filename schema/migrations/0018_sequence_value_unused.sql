-- Rows that had issued no number contained 0.
update sequence_value
   set value = null
 where revision = 0
