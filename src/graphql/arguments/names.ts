import { builder } from '../builder.ts'
import * as checks from './checks.ts'

/** A required name. */
export function nameArgument(description: string) {
  return { required: true, description, validate: checks.name } as const
}

/** A namespace, or the default one. */
export function namespaceArgument(description: string) {
  return { ...nameArgument(description), defaultValue: 'default' } as const
}

/** A text that may be empty, and is by default. */
export function textArgument(description: string) {
  return { required: true, defaultValue: '', description, validate: checks.textOrEmpty } as const
}

/** The arguments that name a counter or a sequence. */
export function keyArguments(type: 'counter' | 'sequence') {
  return builder.args((t) => ({
    name: t.string(nameArgument(`Name of the ${type}.`)),
    namespace: t.string(namespaceArgument(`Namespace of the ${type}.`)),
  }))
}
