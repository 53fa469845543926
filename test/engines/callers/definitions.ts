import { setTimeout as pause } from 'node:timers/promises'
import { type Caller, noteUnexpected } from '../caller.ts'
import { NAMESPACE } from './namespace.ts'

/** A number in a definition that only rises: what was requested, and what a server has returned since. */
export interface Rising {
  requested: number
  acknowledged: number
}

/** The definitions that are changed while callers count by them. */
export interface Definitions {
  /** The highest value of the bounded counter. */
  limit: Rising
  /** The version that the format of tickets shows. */
  format: Rising
}

export function createDefinitions(): Definitions {
  return { limit: { requested: 0, acknowledged: 0 }, format: { requested: 0, acknowledged: 0 } }
}

const DEFINE_COUNTER = `mutation($name: String!, $definition: CounterDefinitionInput!) {
  defineCounter(name: $name, definition: $definition, namespace: "${NAMESPACE}") { name }
}`
const DEFINE_SEQUENCE = `mutation($name: String!, $definition: SequenceDefinitionInput!) {
  defineSequence(name: $name, definition: $definition, namespace: "${NAMESPACE}") { name }
}`
const PAUSE_MS = 300
const ROOM = 20
/** A sequence keeps up to 100 formats. */
const FORMATS_OF_ONE = 90
const BEYOND_REACH = 1_000_000_000

/** The sequence whose format has this version. */
export function ticketsOf(version: number): string {
  return `tickets ${Math.floor(version / FORMATS_OF_ONE)}`
}

/** Defines what callers need before they start. */
export async function defineFirst(caller: Caller, definitions: Definitions): Promise<void> {
  await caller.insist(DEFINE_SEQUENCE, { name: 'invoices', definition: { gapless: true } })
  await raiseLimit(caller, definitions)
  await changeFormat(caller, definitions)
}

/** Changes one definition through one of the servers, and waits a little. There is only one caller who does. */
export async function changeDefinition(caller: Caller, definitions: Definitions): Promise<void> {
  const which = caller.random.below(3)
  if (which === 0) await raiseLimit(caller, definitions)
  else if (which === 1) await changeFormat(caller, definitions)
  else {
    const definition = { maxValue: BEYOND_REACH + caller.random.below(1000) }
    await define(caller, DEFINE_COUNTER, { name: 'hot', definition })
  }
  await pause(PAUSE_MS)
}

async function raiseLimit(caller: Caller, { limit }: Definitions): Promise<void> {
  const maxValue = limit.requested + ROOM
  limit.requested = maxValue
  if (await define(caller, DEFINE_COUNTER, { name: 'bounded', definition: { maxValue } })) {
    limit.acknowledged = maxValue
  }
}

async function changeFormat(caller: Caller, { format }: Definitions): Promise<void> {
  const version = format.requested + 1
  format.requested = version
  const definition = { format: `v${version} {group}-{value:3}`, allowRepeats: true }
  if (await define(caller, DEFINE_SEQUENCE, { name: ticketsOf(version), definition }))
    format.acknowledged = version
}

async function define(caller: Caller, query: string, variables: Record<string, unknown>): Promise<boolean> {
  const first = caller.random.below(2) === 0 ? caller.server : caller.other
  const outcome = await caller.insist(query, variables, first)
  noteUnexpected(caller, 'define', outcome)
  return outcome?.kind === 'answered'
}
