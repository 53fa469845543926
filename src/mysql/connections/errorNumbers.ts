/**
 * Error numbers of MySQL and MariaDB that Nth handles, named as in the servers' manuals and grouped by meaning. Both
 * servers' lists were reviewed: any other number is a fault of a statement or a table.
 */
export const CLASSES = {
  /** Rolled back in favour of another transaction. */
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
  /** The connection is lost. Numbers from 2000 to 2999 are errors of clients, which a proxy may pass on. */
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
    CONNECTION_ERROR: 2002,
    CONN_HOST_ERROR: 2003,
    SERVER_GONE_ERROR: 2006,
    SERVER_LOST: 2013,
    SERVER_LOST_EXTENDED: 2055,
    SESSION_WAS_KILLED: 3169,
    CLIENT_INTERACTION_TIMEOUT: 4031,
  },
  /** Errors that only specific statements check for. */
  OTHERS: {
    BAD_NULL_ERROR: 1048,
    DUP_ENTRY: 1062,
    NO_SUCH_TABLE: 1146,
    SUBQUERY_NO_1_ROW: 1242,
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
