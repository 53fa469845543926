import type { Service } from '../server/service.ts'

export const PARTS =
  'startValue step minValue maxValue cycle format restartEvery allowRepeats timeZone gapless'

export const DEFINE = `mutation($name: String! = "s", $definition: SequenceDefinitionInput!) {
  defineSequence(name: $name, definition: $definition) { ${PARTS} createdAt }
}`

export const NEXT = `mutation($name: String! = "s", $group: String! = "", $count: Int! = 1) {
  nextInSequence(name: $name, group: $group, count: $count) { value values formatted lastValue group { nextValue lastFormatted } }
}`

export const KEY = { namespace: 'n', name: 's' }

export const define = ({ ask }: Service, definition: object, name = 's') => ask(DEFINE, { name, definition })
export const next = async ({ ask }: Service, variables: object = {}) =>
  (await ask(NEXT, { ...variables })).nextInSequence
