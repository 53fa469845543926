/** What was found out about one thing. */
export interface Finding {
  subject: string
  level: 'ok' | 'warning' | 'error'
  message: string
}
