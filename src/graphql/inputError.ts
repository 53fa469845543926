import { NthError } from '../core/errors.ts'

interface Issue {
  message: string
  path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined
  /** What Nth's own checks add: the bound that was crossed. */
  params?: { limit?: number | undefined }
}

/** The error for arguments that are of the right type but have a value that isn't allowed. Names the first one. */
export function inputError({ issues }: { issues: readonly Issue[] }): NthError {
  const [issue] = issues
  const argument =
    issue?.path?.map((step) => String(typeof step === 'object' ? step.key : step)).join('.') ?? ''
  return new NthError('BAD_USER_INPUT', `Argument "${argument}" ${issue?.message}.`, {
    argument,
    ...(issue?.params?.limit !== undefined && { limit: issue.params.limit }),
  })
}
