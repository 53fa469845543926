-- What was done under an idempotency key, written by the transaction that did it. `hash` is that of the key and
-- its namespace, `fingerprint` that of what was asked, `answers` a JSON list of what each operation did; null
-- while its transaction is under way. No secondary unique key: writers deadlock on it.
create table if not exists idempotency_key (
  hash binary(32) not null,
  fingerprint binary(32) not null,
  done_at datetime(3) not null,
  answers mediumblob null,
  primary key (hash),
  key idempotency_key_done_at (done_at)
) engine = InnoDB
