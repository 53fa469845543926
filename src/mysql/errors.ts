import { isTooLarge, UnusableRowError } from '../rules/errors.ts'

/**
 * Error numbers of MySQL and MariaDB that Nth handles, named as in the servers' manuals and grouped by meaning. Both
 * servers' lists were reviewed: any other number is a fault of a statement or a table.
 */
export const CLASSES = {
  /** Rolled back in favour of another transaction, or never sent: retry. */
  CONFLICTS: {
    CHECKREAD: 1020,
    LOCK_WAIT_TIMEOUT: 1205,
    LOCK_DEADLOCK: 1213,
    TABLE_DEF_CHANGED: 1412,
    LOCK_ABORTED: 1689,
    TRANSACTION_ROLLBACK_DURING_COMMIT: 3101,
    LOCK_NOWAIT: 3572,
    /** A member of Group Replication did not catch up in time. */
    GR_HOLD_WAIT_TIMEOUT: 3781,
    GRP_TRX_CONSISTENCY_BEFORE: 3797,
    GRP_TRX_CONSISTENCY_AFTER_ON_TRX_BEGIN: 3798,
  },
  /** The server doesn't accept writes (any more). Another one at the same address may. */
  SWITCHOVERS: {
    OPEN_AS_READONLY: 1036,
    /** A Galera node that has left its cluster. */
    UNKNOWN_COM: 1047,
    SERVER_SHUTDOWN: 1053,
    OPTION_PREVENTS_STATEMENT: 1290,
    READ_ONLY_TRANSACTION: 1792,
    READ_ONLY_MODE: 1836,
    INNODB_READ_ONLY: 1874,
    INNODB_FORCED_RECOVERY: 1881,
    SERVER_OFFLINE_MODE: 3032,
    /** A member of Group Replication that has left its group. */
    RUN_HOOK_ERROR: 3100,
    /** A member of it that is about to leave, or not part of it yet. */
    GR_HOLD_KILLED: 3782,
    GR_HOLD_MEMBER_STATUS_ERROR: 3783,
    GRP_TRX_CONSISTENCY_NOT_ALLOWED: 3796,
    GRP_TRX_CONSISTENCY_BEGIN_NOT_ALLOWED: 3799,
    SCHEMA_READ_ONLY: 3989,
  },
  /** A disk is full, or can't be written to. The first three are from the servers' own libraries. */
  FULL_DISKS: {
    CANTCREATEFILE: 1,
    WRITE: 3,
    LIBRARY_DISK_FULL: 20,
    CANT_CREATE_FILE: 1004,
    DISK_FULL: 1021,
    ERROR_ON_WRITE: 1026,
    GET_ERRNO: 1030,
    RECORD_FILE_FULL: 1114,
    IO_WRITE_ERROR: 1811,
    TEMP_FILE_WRITE_FAILURE: 1878,
    INNODB_UNDO_LOG_FULL: 3019,
    DISK_FULL_NOWAIT: 3675,
  },
  /** A limit is reached, or the statement was interrupted. */
  SHORTAGES: {
    LIBRARY_OUTOFMEMORY: 5,
    OUT_OF_FILERESOURCES: 23,
    CANT_OPEN_FILE: 1016,
    OUTOFMEMORY: 1037,
    OUT_OF_SORTMEMORY: 1038,
    CON_COUNT_ERROR: 1040,
    OUT_OF_RESOURCES: 1041,
    BAD_HOST_ERROR: 1042,
    HANDSHAKE_ERROR: 1043,
    HOST_IS_BLOCKED: 1129,
    CANT_CREATE_THREAD: 1135,
    TOO_MANY_USER_CONNECTIONS: 1203,
    LOCK_TABLE_FULL: 1206,
    USER_LIMIT_REACHED: 1226,
    QUERY_INTERRUPTED: 1317,
    TOO_MANY_CONCURRENT_TRXS: 1637,
    STATEMENT_TIMEOUT: 1969,
    ENGINE_OUT_OF_MEMORY: 3015,
    QUERY_TIMEOUT: 3024,
    MDL_OUT_OF_RESOURCES: 3985,
  },
  /** The server denies access: at startup a wrong setting, later a changed password or account. */
  LOCKOUTS: {
    DBACCESS_DENIED: 1044,
    ACCESS_DENIED: 1045,
    BAD_DB: 1049,
    HOST_NOT_PRIVILEGED: 1130,
    NOT_SUPPORTED_AUTH_MODE: 1251,
    SERVER_IS_IN_SECURE_AUTH_MODE: 1275,
    ACCESS_DENIED_NO_PASSWORD: 1698,
    MUST_CHANGE_PASSWORD: 1820,
    MUST_CHANGE_PASSWORD_LOGIN: 1862,
    ACCESS_DENIED_CHANGE_USER: 1873,
    MYSQL_ACCOUNT_HAS_BEEN_LOCKED: 3118,
    SECURE_TRANSPORT_REQUIRED: 3159,
    DB_ACCESS_DENIED: 3879,
    ACCOUNT_BLOCKED_BY_PASSWORD_LOCK: 3955,
    USER_IS_BLOCKED: 4150,
    ACCOUNT_HAS_BEEN_LOCKED: 4151,
  },
  /** The connection was lost before the answer: it may have been done. */
  LOSSES: {
    FORCING_CLOSE: 1080,
    ABORTING_CONNECTION: 1152,
    NET_READ_ERROR_FROM_PIPE: 1154,
    NET_FCNTL_ERROR: 1155,
    NET_PACKETS_OUT_OF_ORDER: 1156,
    NET_UNCOMPRESS_ERROR: 1157,
    NET_READ_ERROR: 1158,
    NET_READ_INTERRUPTED: 1159,
    NET_ERROR_ON_WRITE: 1160,
    NET_WRITE_INTERRUPTED: 1161,
    ERROR_DURING_COMMIT: 1180,
    ERROR_DURING_ROLLBACK: 1181,
    NEW_ABORTING_CONNECTION: 1184,
    CONNECTION_KILLED: 1927,
    SERVER_GONE_ERROR: 2006,
    SESSION_WAS_KILLED: 3169,
    CLIENT_INTERACTION_TIMEOUT: 4031,
  },
  /** Errors that only specific statements check for. */
  OTHERS: {
    BAD_NULL_ERROR: 1048,
    DUP_ENTRY: 1062,
    TABLEACCESS_DENIED_ERROR: 1142,
    NO_SUCH_TABLE: 1146,
    SPECIFIC_ACCESS_DENIED_ERROR: 1227,
    SUBQUERY_NO_1_ROW: 1242,
    UNSUPPORTED_PS: 1295,
    MAX_PREPARED_STMT_COUNT_REACHED: 1461,
    NEED_REPREPARE: 1615,
    SIGNAL_EXCEPTION: 1644,
    CHECK_CONSTRAINT_VIOLATED: 3819,
    CONSTRAINT_FAILED: 4025,
  },
} as const

export const ER = {
  ...CLASSES.CONFLICTS,
  ...CLASSES.SWITCHOVERS,
  ...CLASSES.FULL_DISKS,
  ...CLASSES.SHORTAGES,
  ...CLASSES.LOCKOUTS,
  ...CLASSES.LOSSES,
  ...CLASSES.OTHERS,
} as const

/** Another session holds the lock. MySQL has an error of its own for NOWAIT. */
export const LOCKED = [ER.LOCK_WAIT_TIMEOUT, ER.LOCK_NOWAIT]

/** The server, or its user, has as many connections as it may. */
export const CROWDED = [ER.CON_COUNT_ERROR, ER.TOO_MANY_USER_CONNECTIONS, ER.USER_LIMIT_REACHED]

/** The server, or a proxy, can't prepare a statement (any more). */
export const UNPREPARED = [ER.UNSUPPORTED_PS, ER.MAX_PREPARED_STMT_COUNT_REACHED, ER.NEED_REPREPARE]

/** A trigger or a constraint of an operator refuses the change. Only a statement has these errors, never a COMMIT. */
export const REFUSED = [ER.SIGNAL_EXCEPTION, ER.CHECK_CONSTRAINT_VIOLATED, ER.CONSTRAINT_FAILED]

/** A server that has become read-only rolls back instead of committing. There the fence can't be read, as that writes it. */
export const READ_ONLY = [
  ER.OPEN_AS_READONLY,
  ER.OPTION_PREVENTS_STATEMENT,
  ER.READ_ONLY_TRANSACTION,
  ER.READ_ONLY_MODE,
  ER.INNODB_READ_ONLY,
  ER.SCHEMA_READ_ONLY,
]

type ErrorClass = keyof typeof CLASSES

/** What an error of each class means for the work that got it. `refused`: the server can't do it now; nothing was done. */
const FAILURES = {
  CONFLICTS: 'conflict',
  SWITCHOVERS: 'refused',
  FULL_DISKS: 'refused',
  SHORTAGES: 'refused',
  LOCKOUTS: 'refused',
  LOSSES: 'lost',
  /** A fault of Nth, or of the tables; so are errors of no class. */
  OTHERS: 'fault',
} as const satisfies Record<ErrorClass, string>

type DriverError = NodeJS.ErrnoException & { fatal?: boolean }

/** An answer did not arrive in time, or could not be read. */
export class LostAnswerError extends Error {
  override readonly name = 'LostAnswerError'
}

/** A server, or all of them, must not be used now. A later query may find that it may. */
export class UnusableDatabaseError extends Error {
  override readonly name: string = 'UnusableDatabaseError'
}

/** Only the operator can change that. */
export class MisconfiguredDatabaseError extends UnusableDatabaseError {
  override readonly name = 'MisconfiguredDatabaseError'
}

/** Classifies an error of the server, the driver or a socket. */
export function failureOf(error: unknown) {
  if (error instanceof LostAnswerError) return 'lost'
  if (error instanceof UnusableDatabaseError) return 'refused'
  if (isServerError(error)) return FAILURES[classOf(error) ?? 'OTHERS']
  if (!(error instanceof Error)) return 'fault'
  const { errno, code, fatal }: DriverError = error
  // On a connection known to be closed, mysql2 rejects a statement without an error code: it was never sent.
  if (fatal && code === undefined) return 'conflict'
  return fatal || errno !== undefined || code !== undefined ? 'lost' : 'fault'
}

/** Whether the server rejected a statement, without executing any of it. */
export function isRefusal(error: unknown): boolean {
  return isServerError(error) && failureOf(error) !== 'lost'
}

/** Whether it is an exception of our own, not caused by the server or the connection: also a statement that is too long. */
export function isOwnFault(error: unknown): boolean {
  if (isTooLarge(error) || error instanceof UnusableRowError) return true
  return failureOf(error) === 'fault' && !isServerError(error)
}

/**
 * Whether the connection is still usable after an error: the server rejected something, and keeps listening. Not if it
 * no longer accepts writes: the connection would stay with it after another server has taken over.
 */
export function leavesConnection(error: unknown): boolean {
  return isRefusal(error) && !isSwitchover(error) && !isLockout(error)
}

/** Whether the server doesn't accept writes (any more). The next connection may lead to another one. */
export function isSwitchover(error: unknown): boolean {
  return classOf(error) === 'SWITCHOVERS'
}

export function isFullDisk(error: unknown): boolean {
  return classOf(error) === 'FULL_DISKS'
}

/** Whether the server denies access. At startup, waiting doesn't change that. */
export function isLockout(error: unknown): boolean {
  return classOf(error) === 'LOCKOUTS'
}

export function hasErrorNumber(error: unknown, ...errnos: readonly number[]): boolean {
  return error instanceof Error && errnos.includes((error as DriverError).errno ?? 0)
}

/** A short reason for an operator. Some socket errors have no message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, code }: DriverError = error
  return message || code || error.name
}

function classOf(error: unknown): ErrorClass | undefined {
  if (!isServerError(error)) return undefined
  const { errno } = error
  // All of these are errors of clients, which a proxy may pass on.
  if (errno >= 2000 && errno < 3000) return 'LOSSES'
  // `FAILURES` has no other keys.
  const names = Object.keys(FAILURES) as ErrorClass[]
  return names.find((name) => Object.values<number>(CLASSES[name]).includes(errno))
}

/** Error numbers from the server are positive; error numbers of sockets are negative. */
function isServerError(error: unknown): error is DriverError & { errno: number } {
  return error instanceof Error && ((error as DriverError).errno ?? 0) > 0
}

/**
 * @param ended ends the wait as well
 * @throws {LostAnswerError} if a promise isn't settled in time; its work continues
 */
export function withTimeout<T>(timeLimitMs: number, promise: Promise<T>, ended?: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(giveUp, timeLimitMs, 'The database did not answer in time')
    ended?.addEventListener('abort', end)
    promise.then(resolve, reject).then(stopWaiting)
    if (ended?.aborted) end()

    function end(): void {
      giveUp('Nth no longer uses this database server')
    }

    function giveUp(message: string): void {
      stopWaiting()
      reject(new LostAnswerError(message))
    }

    function stopWaiting(): void {
      clearTimeout(timer)
      ended?.removeEventListener('abort', end)
    }
  })
}
