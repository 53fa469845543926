/** What the operator of a process hears of it: one object, made where the process starts. */
export interface Notices {
  /** Progress of the start, and what is good to know then, as a sentence. */
  info: (message: string) => void
  /** Something that an operator may have to act on, such as an outage, as a sentence. */
  warn: (message: string) => void
  /** An unexpected error, with its cause. */
  fault: (error: unknown) => void
}

/** For work whose failures are reported otherwise. */
export const SILENT: Notices = { info: () => undefined, warn: () => undefined, fault: () => undefined }
