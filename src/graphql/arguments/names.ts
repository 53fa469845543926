import * as checks from '../arguments.ts'
import { builder } from '../builder.ts'

/** A required name. */
export const nameArgument = (description: string) => createArgument(description, checks.name)

/** A namespace, or the default one. */
export const namespaceArgument = (description: string) =>
  createArgument(description, checks.name, { defaultValue: 'default' })

/** A text that may be empty, and is by default. */
export const textArgument = (description: string) =>
  createArgument(description, checks.textOrEmpty, { defaultValue: '' })

/** The arguments that name a counter or a sequence. */
export function keyArguments(type: 'counter' | 'sequence') {
  return {
    name: nameArgument(`Name of the ${type}.`),
    namespace: namespaceArgument(`Namespace of the ${type}.`),
  }
}

function createArgument(description: string, check: typeof checks.name, other?: { defaultValue: string }) {
  const options = { required: true, description, extensions: { check }, ...other } as const
  return builder.args((t) => ({ text: t.string(options) })).text
}
