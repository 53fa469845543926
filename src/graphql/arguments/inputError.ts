import { NthError } from '../../core/errors.ts'

interface Issue {
  message: string
  path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined
  /** Set by Nth's own checks: the limit that was violated. */
  params?: { limit?: number | undefined }
}

/** Returns an error for the first argument that has the right type but an invalid value. */
export function inputError({ issues }: { issues: readonly Issue[] }): NthError {
  const [issue] = issues
  const argument =
    issue?.path?.map((step) => String(typeof step === 'object' ? step.key : step)).join('.') ?? ''
  return new NthError('BAD_USER_INPUT', `Argument "${argument}" ${issue?.message}.`, {
    argument,
    ...(issue?.params?.limit !== undefined && { limit: issue.params.limit }),
  })
}
