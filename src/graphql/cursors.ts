import { NthError } from '../core/errors.ts'
import { nameFault } from '../core/names.ts'

/** A place in a list: the name of the item there. */
export function encodeCursor(name: string): string {
  return Buffer.from(name, 'utf8').toString('base64url')
}

/** @throws {NthError} BAD_USER_INPUT for what `encodeCursor` can't have made */
export function decodeCursor(argument: 'after' | 'before', cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined
  const name = Buffer.from(cursor, 'base64url').toString('utf8')
  if (encodeCursor(name) === cursor && !nameFault(name)) return name
  throw new NthError(
    'BAD_USER_INPUT',
    `Argument "${argument}" is not a cursor. Use a cursor as another page gave it.`,
    { argument },
  )
}
