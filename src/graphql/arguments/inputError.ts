import { NthError } from '../../core/errors.ts'

interface Issue {
  message: string
  path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined
  /** The limit that was violated. */
  limit?: number
}

/** Returns an error for the first argument that has the right type but an invalid value. */
export function inputError({ issues }: { issues: readonly Issue[] }): NthError {
  const [issue] = issues
  const argument =
    issue?.path?.map((step) => String(typeof step === 'object' ? step.key : step)).join('.') ?? ''
  return new NthError('BAD_USER_INPUT', `Argument "${argument}" ${issue?.message}.`, {
    argument,
    ...(issue?.limit !== undefined && { limit: issue.limit }),
  })
}
