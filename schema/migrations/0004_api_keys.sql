-- API keys. `hash`: SHA-256 of the key, which isn't stored itself; `prefix`: its first characters. `grants` and `origins`
-- are JSON lists. Null: `origins`, a server's key; `per_minute`, the server's limit; `expires_at`, never. `last_used_at` is
-- a minute behind.
create table if not exists api_key (
  id bigint unsigned not null auto_increment,
  hash binary(32) not null,
  prefix varbinary(16) not null,
  label varbinary(764) not null,
  grants mediumblob not null,
  origins mediumblob null,
  per_minute int unsigned null,
  created_at datetime(3) not null,
  expires_at datetime(3) null,
  revoked_at datetime(3) null,
  last_used_at datetime(3) null,
  primary key (id),
  unique key api_key_hash (hash),
  key api_key_revoked_at (revoked_at)
) engine = InnoDB;
