export const USAGE = `Usage: nth start [--help]

Runs Nth: counters and sequences over GraphQL and MySQL. Environment variables, with defaults in parentheses:

  HOST                       address to listen on (127.0.0.1)
  PORT                       port to listen on; 0 for any free port (4000)
  WORKERS                    number of processes that serve, or auto for one per core (1)
  DATABASE_URL               mysql://user:password@host:port,host:port/database (a private server)
  NTH_ACCEPT_LOST_COMMITS    1: goes on with a database that lacks commits (0)
  NTH_CLUSTER_READS          eventual: reads on a cluster may miss the latest commits (causal)
  NTH_DATA_DIR               directory of the private server (.nth)
  NTH_DATABASE_MEMORY_MB     memory of the private server, in MB (a quarter of the machine's)
  NTH_ADMIN_KEY              the administrator's key, at least 32 characters; then others need keys (none)
  NTH_ANONYMOUS              what callers without a key may do, such as READ,ADD (on loopback everything)
  NTH_ALLOWED_ORIGINS        origins allowed to call without a key, separated by commas, or * (none)
  NTH_ANONYMOUS_PER_MINUTE   maximum changes a minute from an address without a key (unlimited)
  NTH_BROWSER_PER_MINUTE     the same for keys of pages without a limit of their own (300)
  NTH_MAX_CONNECTIONS_PER_ADDRESS  maximum connections from an address (1000)
  NTH_MAX_STREAMS_PER_CLIENT  maximum subscriptions of a key from an address (100)
  NTH_TRUST_PROXY            networks of proxies whose X-Forwarded-For is believed (none)
  NTH_PUBLIC_URL             URL under which browsers reach this server's own pages (its own)
  NTH_JWT_ISSUER             accept tokens of this issuer (none), with
  NTH_JWT_AUDIENCE           this audience, verified by
  NTH_JWT_JWKS_URL           the keys that are published here
  NTH_WRITE_TIMEOUT_MS       maximum wait of a call, in milliseconds (10000)
  NTH_MAX_PENDING            maximum waiting changes per process (10000)
  NTH_LOG_LEVEL              silent, error, warn, info (failed requests) or debug (all requests) (info)
  NTH_METRICS_PORT           port on which /metrics needs no key; 0 for any free port (none)
  NTH_METRICS_HOST           address of that port (127.0.0.1)
  NTH_DRAIN_DELAY_MS         how long /ready fails before a shutdown, in milliseconds (0)
  NTH_SHUTDOWN_TIMEOUT_MS    maximum time of a shutdown after that, in milliseconds (20000)
  NTH_IDEMPOTENCY_TTL_HOURS  how long idempotency keys are valid, in hours (24)
`
