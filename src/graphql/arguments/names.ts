import { builder } from '../builder.ts'
import * as checks from './checks.ts'

/** A required name. */
export function nameArgument(description: string) {
  return builder.args((t) => ({ name: t.string({ required: true, description, validate: checks.name }) }))
    .name
}

/** A namespace, or the default one. */
export function namespaceArgument(description: string) {
  const options = { required: true, defaultValue: 'default', description, validate: checks.name } as const
  return builder.args((t) => ({ namespace: t.string(options) })).namespace
}

/** A text that may be empty, and is by default. */
export function textArgument(description: string) {
  const options = { required: true, defaultValue: '', description, validate: checks.textOrEmpty } as const
  return builder.args((t) => ({ text: t.string(options) })).text
}

/** The arguments that name a counter or a sequence. */
export function keyArguments(type: 'counter' | 'sequence') {
  return {
    name: nameArgument(`Name of the ${type}.`),
    namespace: namespaceArgument(`Namespace of the ${type}.`),
  }
}
