-- When a key was claimed, by the database's clock, which all processes share: its age is judged by that. `done_at`, by
-- the clock of the process that did it, is what callers are told. Null: claimed before there was this column.
alter table idempotency_key
  add column claimed_at datetime(3) null,
  add key idempotency_key_claimed_at (claimed_at),
  drop key idempotency_key_done_at
