import type { Target } from '../../../src/mysql/settings.ts'
import type { Hold } from '../../../src/repository/holds.ts'
import { NthError } from '../../../src/rules/errors.ts'
import { claimOf } from '../../../src/rules/idempotency.ts'
import type { Random } from '../random.ts'
import { openTestNth } from '../server/nth.ts'

/** Names that differ in what is easily lost: case, accents, spaces, separators of lines and cells, length. */
export const NAMES = [
  'a',
  'A',
  'á',
  'a ',
  ' a',
  'x,y',
  '"quoted"',
  "it's",
  '\u2028',
  '=1+1',
  '\ufeff',
  '🦊'.repeat(191),
  '日本語',
]

export const NAMESPACES = ['default', 'Zürich ', 'shop']

const SUBJECTS = ['ann', 'bob', '🦊'] as const

const ZONES = ['UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'America/New_York']
const DAY_MS = 86_400_000
const SAFE = Number.MAX_SAFE_INTEGER

/** Fills a database with everything there can be, over the last two months. Returns the tokens of reservations and holds. */
export async function fillWithAnything(
  target: Target,
  random: Random,
): Promise<Record<'reservations' | 'holds', string[]>> {
  let now = Date.now() - 60 * DAY_MS
  const { counters, holds, sequences, namespaces } = openTestNth(target, { now: () => new Date(now) })
  const tokens: string[] = []
  const held: Hold[] = []
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[random.below(items.length)] ?? items[0]
  const zone = () => pick(ZONES as [string, ...string[]])
  const name = () => pick(NAMES as [string, ...string[]])
  await namespaces.define('shop', {
    timeZone: 'Asia/Kathmandu',
    periods: [{ period: 'WEEK', keepDays: 400 }],
    leaderboards: ['DAY', 'WEEK'],
  })
  await namespaces.define('empty', { timeZone: 'Europe/Berlin' })

  /** What is refused changes nothing. */
  async function attempt(work: () => Promise<unknown>): Promise<void> {
    await work().catch((error) => {
      if (!(error instanceof NthError)) throw error
    })
  }

  const steps: (() => Promise<unknown>)[] = [
    () => counters.incrementBy(key(), random.below(20) - 5),
    () => counters.incrementBy(key(), random.below(20) - 5),
    () => counters.incrementBy(key(), pick([SAFE - 10, -SAFE + 10, 2 ** 40])),
    () => counters.reset(key(), random.below(1000) - 500, {}, {}, random.below(4) === 0),
    () => counters.define(key(), { minValue: -100 - random.below(9), maxValue: SAFE - random.below(9) }),
    () => counters.define(key(), { minValue: null, maxValue: null, slots: 1 + random.below(4) }),
    () => counters.define(key(), { timeZone: zone(), overflow: 'SATURATE' }),
    () =>
      counters.define(key(), {
        periods: random
          .sample(['HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'] as const, random.below(5))
          .map((period) => ({ period, keepDays: pick([null, 30, 100]) })),
      }),
    () => counters.define(key(), { maxIn: [{ period: 'DAY', max: random.below(30) }] }),
    () => counters.define(key(), { oncePer: pick([null, 'DAY', 'MONTH']) }),
    ...Array.from({ length: 3 }, () => () => counters.countOnce(key(), pick(SUBJECTS))),
    () => counters.uncount(key(), pick(SUBJECTS)),
    () => sequences.nextOnce(group(pick(['plain', 'monthly', 'down'])), pick(SUBJECTS)),
    () => sequences.next(group('plain'), 1 + random.below(5)),
    () => sequences.next(group('monthly'), 1 + random.below(5)),
    () => sequences.next(group('down'), 1 + random.below(5)),
    () => sequences.next(group('ring'), 1 + random.below(3)),
    () => sequences.restart(group(pick(['plain', 'monthly', 'down', 'exact'])), random.below(50)),
    () =>
      sequences.define(
        { namespace: 'shop', name: 'plain' },
        { format: `F${random.below(5)}x{group}-{value}` },
      ),
    ...Array.from({ length: 3 }, () => async () => {
      const { namespace } = key()
      const changes = [name(), name()].map((name) => ({ name, delta: 1 + random.below(9) }))
      const times = { ttlMs: pick([1, 3_600_000]), longestMs: 86_400_000 }
      const claim = claimOf(namespace, `hold ${held.length}`, changes)
      held.push(await holds.hold(namespace, changes, times, { claim }))
    }),
    async () => held.length > 0 && holds.extend(pick(held as [Hold, ...Hold[]]), 7_200_000),
    async () => held.length > 0 && holds.release(pick(held as [Hold, ...Hold[]])),
    async () => held.length > 0 && holds.confirm(pick(held as [Hold, ...Hold[]])),
    async () => {
      if (held.length === 0) return
      const hold = pick(held as [Hold, ...Hold[]])
      const other = hold.deltas.slice(0, 1).map(({ key }) => ({ name: key?.name ?? '', delta: 1 }))
      await holds.confirm(hold, other)
    },
    ...Array.from({ length: 4 }, () => async () => {
      tokens.push((await sequences.reserve(group('exact'), 1 + random.below(86_400))).token)
    }),
    async () => tokens.length > 0 && sequences.confirm(pick(tokens as [string, ...string[]])),
    async () => tokens.length > 0 && sequences.release(pick(tokens as [string, ...string[]])),
  ]
  const key = () => ({ namespace: pick(NAMESPACES as [string, ...string[]]), name: name() })
  const group = (sequence: string) => ({ namespace: 'shop', sequence, group: pick(['', 'a', name()]) })
  const inShop = (name: string) => ({ namespace: 'shop', name })
  await sequences.define(inShop('monthly'), {
    format: 'INV-{group}-{yyyy}{MM}-{value:4}',
    restartEvery: 'MONTH',
    timeZone: 'America/New_York',
  })
  await sequences.define(inShop('down'), { startValue: 10, step: -3, minValue: -SAFE })
  await sequences.define(inShop('ring'), { minValue: 1, maxValue: 7, cycle: true })
  await sequences.define(inShop('exact'), { gapless: true, format: 'G{value:3}/{group}' })
  await sequences.define(inShop('unused'), { format: 'U-{value}' })
  for (let step = 0; step < 400; step++) {
    now += random.below((2 * 60 * DAY_MS) / 400)
    now = Math.min(now, Date.now())
    await attempt(pick(steps as [() => Promise<unknown>, ...(() => Promise<unknown>)[]]))
  }
  return { reservations: tokens, holds: held.map(({ token }) => token) }
}
