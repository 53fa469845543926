-- When a key was claimed, by the database's clock, which all processes share and which determines the key's age.
-- `done_at`, by the clock of the process that applied the call, is returned to callers. Null: claimed before this
-- column existed.
alter table idempotency_key
  add column claimed_at datetime(3) null,
  add key idempotency_key_claimed_at (claimed_at),
  drop key idempotency_key_done_at
