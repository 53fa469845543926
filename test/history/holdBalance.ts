import type { Answer, CallRecord } from './history.ts'

/**
 * What is wrong with the sums of a history of holds, whatever the order of its calls: an acknowledged change counts once,
 * an unknown one was repeated until it was known, and no answer shows more than there is room for. It takes linear time,
 * where the search for an order may give up.
 *
 * @param name a counter that is only changed by additions and confirmations
 */
export function balanceFaults(history: readonly CallRecord[], name: string): string[] {
  const faults: string[] = []
  const added = new Map<string, number>()
  const ids = new Map<string, readonly { name: string; delta: number }[]>()
  let value: number | undefined
  let lastAnswer = -1
  for (const { operation } of history)
    if (operation.kind === 'reset' && operation.name === name) faults.push(`${name} was reset`)
  for (const { operation, outcome } of history) {
    if (operation.kind !== 'hold' || outcome.kind !== 'answered') continue
    for (const { id } of [outcome.answer ?? {}].flat()) if (id !== undefined) ids.set(id, operation.changes)
  }
  for (const { operation, outcome, answeredAt } of history) {
    if (outcome.kind !== 'answered') continue
    const answers = [outcome.answer ?? {}].flat()
    const answerOf = (names: readonly string[]): Answer | undefined => answers[names.indexOf(name)]
    const note = (call: string, names: readonly string[]) => {
      const delta = answerOf(names)?.appliedDelta
      if (delta == null) return
      // A repeat returns the first answer.
      if ((added.get(call) ?? delta) !== delta) faults.push(`${call} added ${added.get(call)}, then ${delta}`)
      added.set(call, delta)
    }
    if (operation.kind === 'incrementBy') note(`key ${operation.idempotencyKey}`, [operation.name])
    if (operation.kind === 'incrementMany')
      note(
        `key ${operation.idempotencyKey}`,
        operation.changes.map((change) => change.name),
      )
    if (operation.kind === 'confirmHold')
      note(
        `hold ${operation.id}`,
        [...new Set(ids.get(operation.id)?.map((change) => change.name))].toSorted(),
      )
    if (operation.kind !== 'counters') continue
    const read = answerOf(operation.names)
    if (read?.value === undefined) continue
    const { held = 0, heldDown = 0, minValue, maxValue } = read
    if (minValue != null && read.value - heldDown < minValue)
      faults.push(`${read.value} and ${heldDown} held are below ${minValue}`)
    if (maxValue != null && read.value + held > maxValue)
      faults.push(`${read.value} and ${held} held are above ${maxValue}`)
    if ((answeredAt ?? -1) > lastAnswer) {
      lastAnswer = answeredAt ?? -1
      value = read.value
    }
  }
  const sum = [...added.values()].reduce((total, delta) => total + delta, 0)
  if (sum !== value) faults.push(`${sum} were added, and the value is ${value}`)
  return faults
}
