-- Results of calls with an idempotency key, written by the transaction that applied them. `hash` is that of the key and
-- its namespace, `fingerprint` that of the request, `answers` a JSON list with the result of each operation; null while
-- its transaction is in flight. No secondary unique key: writers deadlock on it.
create table if not exists idempotency_key (
  hash binary(32) not null,
  fingerprint binary(32) not null,
  done_at datetime(3) not null,
  answers mediumblob null,
  primary key (hash),
  key idempotency_key_done_at (done_at)
) engine = InnoDB
