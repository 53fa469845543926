/**
 * Parts long work among turns of the event loop, so that no request holds up all others. Work says how many values it
 * is about to make, and goes on at once if they have room in the present turn; else in one of the next. All requests
 * share the room.
 */

/** Some 10 ms: a value takes 1 to 5 µs, with what comes after (Node 20, two cores). */
const VALUES_IN_A_TURN = 2500

/** After which a turn has no more room, whatever was said. */
const LONGEST_TURN_MS = 10

/** A list of so few values is completed in one go. */
const SHORT_LIST = 1000

interface Turn {
  since: number
  values: number
}

let turn: Turn | undefined

/** Waits for a turn with room for so many values. What is too much for any gets a turn of its own. */
export async function untilRoom(values: number): Promise<void> {
  while (!hasRoom(values)) await nextTurn()
}

/** Whether the present turn has room for so many values, which it then has no longer. */
export function hasRoom(values: number): boolean {
  const now = performance.now()
  if (!turn) {
    turn = { since: now, values: 0 }
    setImmediate(() => {
      turn = undefined
    })
  }
  if (now - turn.since > LONGEST_TURN_MS) return false
  if (turn.values > 0 && turn.values + values > VALUES_IN_A_TURN) return false
  turn.values += values
  return true
}

/**
 * The items of a list one by one, each when there is room for its values: for an executor, which goes on with an item
 * when its promise resolves. Short lists stay as they are.
 */
export async function inTurns<Item>(
  items: readonly Item[],
  valuesOfEach: number,
): Promise<readonly (Item | Promise<Item>)[]> {
  const values = items.length * valuesOfEach
  const isShort = values <= SHORT_LIST
  await untilRoom(isShort ? values : items.length)
  if (isShort) return items
  const deliveries: ((item: Item) => void)[] = []
  const promises = items.map(() => new Promise<Item>((resolve) => deliveries.push(resolve)))
  const deliver = async () => {
    for (const [index, item] of items.entries()) {
      if (!hasRoom(valuesOfEach)) await untilRoom(valuesOfEach)
      deliveries[index]?.(item)
      // What waits for it goes on before the time is looked at again.
      await undefined
    }
  }
  // It waits for nothing that can fail.
  void deliver()
  return promises
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
