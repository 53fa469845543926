/** Values of NTH_LOG_LEVEL: with each, those before it are logged too. */
export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'] as const
