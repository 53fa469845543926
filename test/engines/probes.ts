import { send } from './request.ts'
import type { Server } from './servers.ts'

/** What one server returned when it was queried for what the other had just returned. */
export interface ProbeResult {
  probes: number
  /** Answers that were not by all that was answered before. */
  stale: string[]
  /** Calls without an answer. */
  unanswered: string[]
}

const DEFINE_COUNTER = `mutation($maxValue: SafeInt!) {
  defineCounter(name: "full", definition: { maxValue: $maxValue }, namespace: "probes") { name }
}`
const INCREMENT = `mutation($name: String!) { change: increment(name: $name, namespace: "probes") { value } }`
const READ = `query($name: String!) { counter(name: $name, namespace: "probes") { value } }`
const DEFINE_SEQUENCE = `mutation($name: String!, $definition: SequenceDefinitionInput!) {
  defineSequence(name: $name, definition: $definition, namespace: "probes") { name }
}`
const NEXT = `mutation($name: String!, $group: String!) {
  numbers: nextInSequence(name: $name, group: $group, namespace: "probes") { formatted }
}`
const RESERVE = 'mutation { reservation: reserveInSequence(name: "gapless", namespace: "probes") { id } }'
const CONFIRM = 'mutation($id: ID!) { reservation: confirmReservation(id: $id) { state } }'

/** Asks each server in turn for what the other has just answered. */
export async function probeCausality(
  servers: readonly [Server, Server],
  rounds: number,
): Promise<ProbeResult> {
  const result: ProbeResult = { probes: 0, stale: [], unanswered: [] }

  /** Undefined if there was no answer. A refusal on grounds of what is no longer so is stale. */
  async function ask<Data>(
    what: string,
    server: Server,
    query: string,
    variables = {},
  ): Promise<Data | undefined> {
    const { data, errors: [error] = [] } = await send<Data>(server, query, variables)
    if (!error) return data
    const isUnanswered = ['UNAVAILABLE', 'OUTCOME_UNKNOWN'].includes(error.extensions.code)
    result[isUnanswered ? 'unanswered' : 'stale'].push(`${what}: ${error.message}`)
    return undefined
  }

  function expectSame(what: string, found: unknown, wanted: unknown): void {
    result.probes++
    if (found !== undefined && found !== wanted) result.stale.push(`${what}: ${found} instead of ${wanted}`)
  }

  await ask('gapless', servers[0], DEFINE_SEQUENCE, { name: 'gapless', definition: { gapless: true } })
  for (let round = 1; round <= rounds; round++) {
    const [one, other] = round % 2 === 0 ? servers : [servers[1], servers[0]]

    await ask('limit', one, DEFINE_COUNTER, { maxValue: round })
    const raised = await ask<{ change: { value: number } }>('limit', other, INCREMENT, { name: 'full' })
    expectSame('limit', raised?.change.value, round)
    const full = await ask<{ counter: { value: number } }>('read at the limit', one, READ, { name: 'full' })
    expectSame('read at the limit', full?.counter.value, round)

    const reserved = await ask<{ reservation: { id: string } }>('reserve', one, RESERVE)
    const confirming = { id: reserved?.reservation.id }
    const confirmed =
      reserved && (await ask<{ reservation: { state: string } }>('confirm', other, CONFIRM, confirming))
    expectSame('confirm', confirmed?.reservation.state, 'CONFIRMED')

    // A sequence keeps up to 100 formats.
    const name = `formatted ${Math.floor(round / 90)}`
    const definition = { format: `v${round} {group}-{value}`, allowRepeats: true }
    await ask('format', one, DEFINE_SEQUENCE, { name, definition })
    const group = `g${round % 7}`
    const numbers = await ask<{ numbers: { formatted: string } }>('format', other, NEXT, { name, group })
    expectSame('format', numbers?.numbers.formatted.split(' ')[0], `v${round}`)

    const counted = await ask<{ change: { value: number } }>('count', one, INCREMENT, { name: 'read' })
    const read = await ask<{ counter: { value: number } }>('read', other, READ, { name: 'read' })
    expectSame('read', read?.counter.value, counted?.change.value)
  }
  return result
}
