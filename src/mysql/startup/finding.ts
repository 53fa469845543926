import { ER, hasErrorNumber, isFullDisk, isRefusal, isSwitchover, reasonOf } from '../connections/errors.ts'

/** What was found out about one thing. */
export interface Finding {
  subject: string
  level: 'ok' | 'warning' | 'error'
  message: string
}

const DENIED = [ER.TABLEACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED]
const RIGHTS =
  'migrations need create, alter, index and drop, everything else select, insert, update and delete'

/** An error of the database, and what an operator can do about it, as sentences. */
export function explained(error: unknown): string {
  const reason = `${reasonOf(error)}.`
  if (hasErrorNumber(error, ...DENIED)) {
    const [, right = 'the rights'] = /^(\w+) command denied/.exec(reason) ?? []
    return `${reason} Grant ${right.toLowerCase()} on the database: ${RIGHTS}.`
  }
  if (isSwitchover(error)) return `${reason} Nth needs a server that accepts changes.`
  if (isFullDisk(error)) return `${reason} Free disk space.`
  return reason
}

/** For `catch`: turns an error of the database into one for an operator. Others stay as they are. */
export function explain(error: unknown): never {
  throw isRefusal(error) ? new Error(`The database refused: ${explained(error)}`, { cause: error }) : error
}
