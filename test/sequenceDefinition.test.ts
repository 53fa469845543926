import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { writerFor } from '../src/core/sequences/groups.ts'
import type { Sequences } from '../src/core/sequences/sequences.ts'
import { inParallel, sorted, upTo } from './support/client.ts'
import { freshDatabase, query } from './support/database.ts'
import { openTestNth } from './support/nth.ts'
import { startProxy } from './support/proxy.ts'
import { defaults } from './support/sequenceModel.ts'
import { type Service, startService } from './support/service.ts'
import { soon } from './support/soon.ts'

const MAX = Number.MAX_SAFE_INTEGER

const PARTS = 'startValue step minValue maxValue cycle format restartEvery allowRepeats timeZone gapless'

const DEFINE = `mutation($name: String! = "s", $definition: SequenceDefinitionInput!) {
  defineSequence(name: $name, definition: $definition) { ${PARTS} createdAt }
}`

const NEXT = `mutation($name: String! = "s", $group: String! = "", $count: Int! = 1) {
  nextInSequence(name: $name, group: $group, count: $count) { value values formatted lastValue group { nextValue lastFormatted } }
}`

const whole = {
  startValue: 100,
  step: -10,
  minValue: -100,
  maxValue: 200,
  cycle: true,
  format: '{yyyy}-{MM} {value}',
  restartEvery: 'MONTH',
  allowRepeats: true,
  timeZone: 'Europe/Berlin',
  gapless: false,
}

/** How long a database may take to be where it is waited for. */
const PATIENCE = { timeout: 20_000, interval: 20 }

const KEY = { namespace: 'n', name: 's' }

const define = ({ ask }: Service, definition: object, name = 's') => ask(DEFINE, { name, definition })
const next = async ({ ask }: Service, variables: object = {}) =>
  (await ask(NEXT, { ...variables })).nextInSequence

it('keeps a whole definition, leaves alone what is not mentioned, and takes null for the default', async () => {
  const service = await startService()
  const { defineSequence } = await define(service, whole)
  expect(defineSequence).toEqual({ ...whole, createdAt: expect.any(String) })
  const { sequence } = await service.ask(`{ sequence(name: "s") { ${PARTS} createdAt } }`)
  expect(sequence).toEqual(defineSequence)
  expect((await define(service, {})).defineSequence).toEqual(defineSequence)
  expect((await define(service, { step: 5, timeZone: 'asia/kolkata' })).defineSequence).toMatchObject({
    ...whole,
    step: 5,
    timeZone: expect.stringMatching(/^Asia\/(Kolkata|Calcutta)$/),
  })
  const nothing = Object.fromEntries(Object.keys(whole).map((part) => [part, null]))
  expect((await define(service, nothing)).defineSequence).toMatchObject(defaults)
})

it('has the defaults of a sequence that nobody has defined, in the time zone of its namespace', async () => {
  const service = await startService()
  expect((await service.ask(`{ sequence(name: "s") { ${PARTS} } }`)).sequence).toEqual(defaults)
  await service.ask('mutation { defineNamespace(definition: { timeZone: "Europe/Berlin" }) { id } }')
  const berlin = { ...defaults, timeZone: 'Europe/Berlin' }
  expect((await service.ask(`{ sequence(name: "s") { ${PARTS} } }`)).sequence).toEqual(berlin)
  await next(service)
  await service.ask('mutation { defineNamespace(definition: { timeZone: "Asia/Tokyo" }) { id } }')
  expect((await service.ask(`{ sequence(name: "s") { ${PARTS} } }`)).sequence).toEqual(berlin)
  expect((await define(service, { timeZone: null })).defineSequence.timeZone).toBe('Asia/Tokyo')
})

it.each([
  [{ step: 0 }, 'step'],
  [{ minValue: 5, maxValue: 4, startValue: 4 }, 'minValue'],
  [{ startValue: 0, minValue: 1 }, 'startValue'],
  [{ maxValue: 0 }, 'maxValue'],
  [{ cycle: true }, 'cycle'],
  [{ cycle: true, step: -1, maxValue: 9 }, 'cycle'],
  [{ gapless: true, cycle: true, maxValue: 9 }, 'gapless'],
  [{ restartEvery: 'YEAR' }, 'restartEvery'],
  [{ restartEvery: 'MONTH', format: '{yyyy}-{value}' }, 'format'],
  [{ format: '{yyyy}{value}' }, 'format', { position: 7 }],
  [{ format: '' }, 'format'],
  [{ format: 'a\nb {value}' }, 'format'],
  [{ format: `\ud800{value}` }, 'format'],
  [{ format: `${'x'.repeat(192)}{value}` }, 'format', { limit: 191 }],
  [{ timeZone: 'Mars/Olympus' }, 'timeZone'],
  [{ timeZone: '' }, 'timeZone'],
])('refuses %j', async (definition, part, details: object = {}) => {
  const service = await startService()
  const refused = { code: 'BAD_USER_INPUT', argument: `definition.${part}`, ...details }
  expect(await service.refusal(DEFINE, { definition })).toMatchObject(refused)
  const { namespace } = await service.ask('{ namespace { sequences { nodes { name } } } }')
  expect(namespace.sequences.nodes).toEqual([])
})

it('counts by any step from any start, up or down, to its bounds', async () => {
  const service = await startService()
  await define(service, { startValue: 5, step: -3, minValue: -2 })
  expect((await next(service, { count: 2 })).values).toEqual([5, 2])
  const refused = { code: 'SEQUENCE_EXHAUSTED', limit: -2, lastValue: 2 }
  expect(await service.refusal(NEXT, { count: 2 })).toEqual(refused)
  expect(await next(service)).toMatchObject({ value: -1, group: { nextValue: null } })
  expect(await service.refusal(NEXT)).toEqual({ ...refused, lastValue: -1 })
  await define(service, { minValue: null })
  expect((await next(service)).value).toBe(-4)
})

it('begins a cycle again at the other end, in the middle of a block, too', async () => {
  const service = await startService()
  await define(service, { startValue: 3, minValue: 1, maxValue: 4, cycle: true })
  expect((await next(service, { count: 3 })).values).toEqual([3, 4, 1])
  expect(await next(service, { count: 4 })).toMatchObject({ values: [2, 3, 4, 1], value: 2, lastValue: 1 })
  expect(await service.refusal(NEXT, { count: 5 })).toEqual({
    code: 'BAD_USER_INPUT',
    argument: 'count',
    limit: 4,
  })
  await define(service, { maxValue: 1_000_000 })
  expect(await service.refusal(NEXT, { count: 10_001 })).toMatchObject({ argument: 'count', limit: 10_000 })
  await define(service, { startValue: 6, minValue: null, maxValue: 7, cycle: true }, 'from start')
  expect((await next(service, { name: 'from start', count: 2 })).values).toEqual([6, 7])
  expect((await next(service, { name: 'from start', count: 2 })).values).toEqual([6, 7])
})

it('allows changes of a sequence in use that keep its numbers unique', async () => {
  const service = await startService()
  expect((await next(service, { group: 'A', count: 3 })).formatted).toBe('A-1')
  for (const [definition, formatted] of [
    [{ step: 5 }, 'A-8'],
    [{ format: 'T-{group}-{value:4}' }, 'T-A-0013'],
    [{ minValue: 100, startValue: 100 }, 'T-A-0100'],
    [{ format: '{yyyy}/{value}', restartEvery: 'YEAR', timeZone: 'Europe/Berlin' }, '2026/100'],
    [{ restartEvery: null, format: '#{value}' }, '#105'],
  ] as const) {
    await define(service, definition)
    const text = (await next(service, { group: 'A' })).formatted
    expect(text.replace(/^20\d\d/, '2026')).toBe(formatted)
  }
})

it('shows the last number as it was written, whatever the format is now', async () => {
  const service = await startService()
  await next(service)
  await define(service, { format: 'INV-{value:3}' })
  const { sequence } = await service.ask('{ sequence(name: "s") { group { lastFormatted nextValue } } }')
  expect(sequence.group).toEqual({ lastFormatted: '1', nextValue: 2 })
  expect(await next(service)).toMatchObject({ formatted: 'INV-002', group: { lastFormatted: 'INV-002' } })
})

it.each([
  [{ step: -1 }, 'step'],
  [{ format: '{value}0' }, 'format'],
  [{ format: '{value}-{yyyy}', restartEvery: 'YEAR' }, undefined],
  [{ gapless: true }, 'gapless'],
])('of a sequence in use: %j', async (definition, part) => {
  const service = await startService()
  await next(service, { count: 20 })
  if (part === undefined) return expect(await define(service, definition)).toBeDefined()
  const refused = { code: 'BAD_USER_INPUT', argument: `definition.${part}` }
  expect(await service.refusal(DEFINE, { definition })).toEqual(refused)
  expect((await next(service)).value).toBe(21)
})

it('refuses to take back what has mixed its numbers up, unless they look different from then on', async () => {
  const service = await startService()
  await define(service, { maxValue: 3, cycle: true })
  await next(service, { count: 2 })
  const once = { cycle: false, maxValue: null }
  expect(await service.refusal(DEFINE, { definition: once })).toMatchObject({ argument: 'definition.cycle' })
  await define(service, { ...once, format: 'x{value}' })
  expect((await next(service)).formatted).toBe('x3')
  await define(service, { allowRepeats: true, step: -1, format: null })
  expect((await next(service)).formatted).toBe('2')
  const strict = { allowRepeats: false, step: 1 }
  expect(await service.refusal(DEFINE, { definition: strict })).toMatchObject({
    argument: 'definition.step',
  })
  await define(service, { ...strict, format: 'y{value}' })
  expect((await next(service)).formatted).toBe('y3')
})

it('takes numbers below 0 for what they look like', async () => {
  const service = await startService()
  await define(service, { startValue: -5, format: 'A{value}' })
  expect((await next(service, { count: 2 })).formatted).toBe('A-5')
  const minus = { format: 'A-{value}' }
  expect(await service.refusal(DEFINE, { definition: minus })).toMatchObject({
    argument: 'definition.format',
  })
  await define(service, { format: 'A{value}' }, 'positive')
  await next(service, { name: 'positive' })
  await define(service, minus, 'positive')
  expect((await next(service, { name: 'positive' })).formatted).toBe('A-2')
})

it('refuses to turn round twice and write as at first, as it would come by the same numbers', async () => {
  const service = await startService()
  await next(service, { count: 9 })
  await define(service, { step: -1, format: 'down {value}' })
  await next(service, { count: 5 })
  const again = { step: 1, format: null }
  expect(await service.refusal(DEFINE, { definition: again })).toMatchObject({
    argument: 'definition.format',
  })
  await define(service, { step: 1, format: 'up {value}' })
  expect((await next(service)).formatted).toBe('up 5')
})

it('takes back a change by which nothing was issued', async () => {
  const service = await startService()
  await define(service, { format: 'INV-{value}' })
  await next(service)
  for (const [there, back] of [
    [{ allowRepeats: true }, { allowRepeats: false }],
    [
      { cycle: true, maxValue: 100 },
      { cycle: false, maxValue: null },
    ],
    [
      { step: -1, format: 'B{value}' },
      { step: 1, format: 'INV-{value}' },
    ],
  ]) {
    await define(service, there ?? {})
    await define(service, back ?? {})
  }
  expect((await next(service)).formatted).toBe('INV-2')
})

it('changes the format in use a hundred times, and no more', async () => {
  const { sequences } = openTestNth(await freshDatabase())
  const key = { namespace: 'n', name: 's' }
  for (const time of upTo(100)) {
    await sequences.define(key, { format: `${time}:{value}` })
    await sequences.next({ namespace: 'n', sequence: 's', group: '' }, 1)
  }
  await sequences.define(key, { format: 'the last: {value}' })
  await sequences.next({ namespace: 'n', sequence: 's', group: '' }, 1)
  await expect(sequences.define(key, { format: 'x{value}' })).rejects.toMatchObject({
    code: 'BAD_USER_INPUT',
    details: { argument: 'definition.format' },
  })
  await sequences.define(key, { maxValue: 1000 })
})

it.each<[{ startValue: number; step: number; cycle?: boolean }, number, number[]]>([
  [{ startValue: -MAX, step: MAX }, 3, [-MAX, 0, MAX]],
  [
    { startValue: -MAX, ...{ minValue: -MAX, maxValue: MAX }, step: 3_002_399_751_580_333, cycle: true },
    7,
    [
      -MAX,
      -6_004_799_503_160_658,
      -3_002_399_751_580_325,
      8,
      3_002_399_751_580_341,
      6_004_799_503_160_674,
      -MAX,
    ],
  ],
])('is exact from one end of the safe range to the other: %j', async (definition, count, values) => {
  const service = await startService()
  const wanted = definition.cycle ? values.slice(0, 6) : values
  await define(service, definition, 'block')
  const block = await next(service, { name: 'block', count: wanted.length })
  expect([block.values, block.lastValue]).toEqual([wanted, wanted.at(-1)])
  await define(service, definition, 'single')
  const singles: number[] = []
  for (const _ of upTo(count)) singles.push((await next(service, { name: 'single' })).value)
  expect(singles).toEqual(values)
  if (!definition.cycle)
    expect(await service.refusal(NEXT, { name: 'block' })).toEqual({ code: 'OUT_OF_RANGE', value: MAX })
})

it('is of the time zone and age that it has at its first use, not at a refused one', async () => {
  const service = await startService()
  const refused = [
    'reserveInSequence(name: "s") { id }',
    'defineSequence(name: "s", definition: { step: 0 }) { id }',
  ]
  for (const field of refused)
    expect((await service.refusal(`mutation { ${field} }`)).code).toBe('BAD_USER_INPUT')
  await service.ask('mutation { defineNamespace(definition: { timeZone: "Asia/Tokyo" }) { id } }')
  await next(service)
  const { sequence } = await service.ask('{ sequence(name: "s") { timeZone } }')
  expect(sequence.timeZone).toBe('Asia/Tokyo')
  expect(await query(service.target, 'select id from sequence')).toHaveLength(1)
})

it('keeps no reader waiting while many definitions wait for one that is locked', async () => {
  const { ask, send, target } = await startService({ writeTimeoutMs: 3000 })
  await ask('mutation { nextInSequence(name: "locked") { value } }')
  const holder = await createConnection(target)
  onTestFinished(() => holder.end())
  await holder.query('start transaction')
  await holder.query('select * from sequence where id = 1 for update')
  const definitions = upTo(40).map((time) =>
    send(DEFINE, { name: 'locked', definition: { maxValue: 1000 + time } }),
  )
  let isOver = false
  const all = Promise.all(definitions).finally(() => {
    isOver = true
  })
  await soon(
    'reads',
    inParallel(4, 200, () => ask('{ counter(name: "c") { value } }')),
  )
  expect(isOver).toBe(false)
  const codes = (await all).map(({ errors }) => errors?.[0]?.extensions.code)
  expect(new Set(codes)).toEqual(new Set(['UNAVAILABLE']))
  await holder.query('rollback')
})

it('issues by a new definition in another process from its answer on', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target), openTestNth(target)]
  const key = { namespace: 'n', sequence: 's', group: 'g' }
  expect((await other.sequences.next(key, 5)).issued.lastValue).toBe(5)
  await one.sequences.define({ namespace: 'n', name: 's' }, { step: 10, maxValue: 20 })
  expect((await other.sequences.next(key, 1)).issued.value).toBe(15)
  await expect(other.sequences.next(key, 1)).rejects.toMatchObject({ code: 'SEQUENCE_EXHAUSTED' })
})

it('has a definition wait for numbers that are being issued, so that none is numbered by the old one after its answer', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target), openTestNth(target)]
  const key = { namespace: 'n', sequence: 's', group: '' }
  await one.sequences.next(key, 1)
  const holder = await createConnection(target)
  onTestFinished(() => holder.end())
  await holder.query('start transaction')
  await holder.query('select * from sequence_value for update')
  const waiting = async () => {
    const [row] = await query(
      target,
      // Not from innodb_trx, which is not renewed while several ask for it again and again.
      `select count(*) as waiting
         from information_schema.processlist
        where db = '${target.database}' and command = 'Query' and id <> connection_id()`,
    )
    return Number(row?.waiting)
  }
  const issued = one.sequences.next(key, 1)
  await expect.poll(waiting, PATIENCE).toBe(1)
  let isDefined = false
  const defined = other.sequences.define(KEY, { format: 'new {value}' }).then(() => {
    isDefined = true
  })
  await expect.poll(async () => isDefined || (await waiting()) === 2, PATIENCE).toBe(true)
  const mustBeNew = isDefined
  await holder.query('rollback')
  const numbers = await issued
  if (mustBeNew) expect(writerFor(numbers)(numbers.issued.value)).toBe('new 2')
  expect(numbers.issued.value).toBe(2)
  await defined
  const last = await one.sequences.next(key, 1)
  expect(writerFor(last)(last.issued.value)).toBe('new 3')
})

it('issues every number once while its definition is changed again and again', async () => {
  const target = await freshDatabase()
  const processes = [openTestNth(target), openTestNth(target)]
  const groups = ['a', 'b', '']
  let isOver = false
  const definer = (async () => {
    for (let step = 1; !isOver; step = 1 + (step % 3)) {
      await processes[step % 2]?.sequences.define({ namespace: 'n', name: 's' }, { step })
    }
  })()
  const issued = await inParallel(30, 2000, async (index) => {
    const group = groups[index % 3] ?? ''
    const numbers = await processes[index % 2]?.sequences.next({ namespace: 'n', sequence: 's', group }, 1)
    return `${group} ${numbers?.issued.value}`
  })
  isOver = true
  await definer
  expect(new Set(issued).size).toBe(2000)
  for (const { faults } of processes) expect(faults).toEqual([])
})

it.each([
  ['changed', (sequences: Sequences) => sequences.define(KEY, { format: 'later {value}' }), 'later {value}'],
  ['deleted', (sequences: Sequences) => sequences.delete(KEY), undefined],
])(
  'makes a change once whose COMMIT was not answered, though the sequence was %s before that was noticed',
  async (_, meddle, format) => {
    const target = await freshDatabase()
    const { sequences } = openTestNth(target)
    await sequences.define(KEY, { startValue: 10, maxValue: 20 })
    const meddling: Promise<unknown>[] = []
    let isDown = false
    const cut = await startProxy(target, (statement) => {
      if (isDown) return 'is cut off'
      if (statement !== 'commit') return 'passes'
      isDown = true
      const meddled = meddle(sequences).finally(() => {
        isDown = false
      })
      meddling.push(meddled)
      return 'stays unanswered'
    })
    // Of a sequence as it is by default, it would be refused.
    const told = await openTestNth(cut).sequences.define(KEY, { minValue: 5, format: 'earlier {value}' })
    expect(told.definition).toMatchObject({ minValue: 5, maxValue: 20, format: 'earlier {value}' })
    expect(meddling.length).toBe(1)
    await Promise.all(meddling)
    expect((await sequences.read(KEY)).definition?.format).toBe(format)
  },
)

it('continues numbers from elsewhere, in a group or from the start', async () => {
  const service = await startService()
  await define(service, { startValue: 4711 })
  expect((await next(service)).value).toBe(4711)
  const { restartSequence } = await service.ask(
    'mutation { restartSequence(name: "s", group: "old", nextValue: 918) { name nextValue lastValue sequence { name } } }',
  )
  expect(restartSequence).toEqual({ name: 'old', nextValue: 918, lastValue: null, sequence: { name: 's' } })
  expect((await next(service, { group: 'old' })).formatted).toBe('old-918')
})

it('refuses another start where no number would begin there', async () => {
  const service = await startService()
  await next(service)
  const error = { code: 'BAD_USER_INPUT', argument: 'definition.startValue' }
  const { errors = [] } = await service.send(DEFINE, { definition: { startValue: 100 } })
  expect(errors[0]).toMatchObject({ message: expect.stringContaining('restartSequence'), extensions: error })
  expect(await service.refusal(DEFINE, { definition: { startValue: 100, step: 5 } })).toEqual(error)
  await define(service, { startValue: 1, step: 5 })
  // Each of these has a start ahead: of a round, of a period, of another group.
  await define(service, { startValue: 100, maxValue: 1000, cycle: true })
  await define(service, {
    cycle: false,
    maxValue: null,
    restartEvery: 'YEAR',
    format: '{yyyy}-{value}',
    startValue: 7,
  })
  await next(service, { name: 'grouped', group: 'A' })
  await define(service, { startValue: 50 }, 'grouped')
  expect((await next(service, { name: 'grouped', group: 'B' })).value).toBe(50)
})

it('restarts once under a key, within the bounds only', async () => {
  const service = await startService()
  await define(service, { maxValue: 10, minValue: 1 })
  const restart = `mutation($to: SafeInt) {
    restartSequence(name: "s", nextValue: $to, idempotencyKey: "k") { nextValue lastValue }
  }`
  await next(service, { count: 4 })
  expect((await service.ask(restart, { to: 2 })).restartSequence).toEqual({ nextValue: 2, lastValue: 4 })
  expect((await next(service)).value).toBe(2)
  expect((await service.ask(restart, { to: 2 })).restartSequence).toEqual({ nextValue: 3, lastValue: 2 })
  expect(await service.refusal(restart, { to: 3 })).toEqual({ code: 'IDEMPOTENCY_KEY_REUSED' })
  for (const [to, limit] of [
    [0, 1],
    [11, 10],
  ]) {
    const far = `mutation { restartSequence(name: "s", nextValue: ${to}) { name } }`
    expect(await service.refusal(far)).toEqual({ code: 'LIMIT_REACHED', argument: 'nextValue', limit })
  }
  const start = 'mutation { restartSequence(name: "s") { nextValue } }'
  expect((await service.ask(start)).restartSequence).toEqual({ nextValue: 1 })
})

it('forgets a deleted sequence with its groups, its definition and its reservations', async () => {
  const service = await startService()
  await define(service, { gapless: true, format: 'G{value}' })
  const { reserveInSequence } = await service.ask('mutation { reserveInSequence(name: "s") { id } }')
  const { deleteSequence } = await service.ask(
    `mutation { deleteSequence(name: "s") { name ${PARTS} createdAt } }`,
  )
  expect(deleteSequence).toEqual({ name: 's', ...defaults, createdAt: null })
  const confirm = `mutation { confirmReservation(id: "${reserveInSequence.id}") { state } }`
  expect(await service.refusal(confirm)).toEqual({ code: 'NOT_FOUND' })
  expect((await service.ask(`{ node(id: "${reserveInSequence.id}") { id } }`)).node).toBeNull()
  expect((await next(service)).formatted).toBe('1')
  await service.ask('mutation { deleteSequence(name: "s") { id } again: deleteSequence(name: "s") { id } }')
})

it('gives numbers that come after a deletion anew, in a process that knew the sequence, too', async () => {
  const target = await freshDatabase()
  const [one, other] = [openTestNth(target), openTestNth(target)]
  const key = { namespace: 'n', sequence: 's', group: '' }
  await other.sequences.next(key, 5)
  await one.sequences.delete({ namespace: 'n', name: 's' })
  expect((await other.sequences.next(key, 1)).issued.value).toBe(1)
})

it('holds up nobody else while somebody keeps a sequence locked', async () => {
  const { ask, target, faults } = await startService()
  await ask('mutation { a: nextInSequence(name: "locked") { value } b: nextInSequence(name: "s") { value } }')
  const holder = await createConnection(target)
  onTestFinished(() => holder.end())
  await holder.query('start transaction')
  // By its key, or it would lock the others, too.
  const [rows] = await holder.query<RowDataPacket[]>("select id from sequence where name = 'locked'")
  await holder.query('select * from sequence where id = ? for update', [rows[0]?.id])
  const waiting = inParallel(8, 8, (index) =>
    ask('mutation($group: String!) { nextInSequence(name: "locked", group: $group) { value } }', {
      group: String(index % 4),
    }),
  )
  const others = inParallel(8, 200, async () => {
    const data = await ask('mutation { nextInSequence(name: "s") { value } increment(name: "c") { value } }')
    return data.nextInSequence.value as number
  })
  expect(sorted(await soon('numbers of another sequence', others))).toEqual(
    upTo(200).map((value) => value + 1),
  )
  await holder.query('rollback')
  expect((await soon('numbers of the locked one', waiting)).length).toBe(8)
  expect(faults).toEqual([])
})

it('sees through to a refused first use: it leaves nothing to be seen', async () => {
  const { ask, refusal, target } = await startService()
  const refused = { code: 'BAD_USER_INPUT' }
  expect(await refusal('mutation { reserveInSequence(name: "s") { id } }')).toEqual(refused)
  const { namespace, sequence } = await ask(
    '{ namespace { sequences { nodes { name } } } sequence(name: "s") { createdAt groups { nodes { name } } } }',
  )
  expect([namespace.sequences.nodes, sequence]).toEqual([[], { createdAt: null, groups: { nodes: [] } }])
  expect(await query(target, 'select * from sequence_value where value is not null')).toEqual([])
})
