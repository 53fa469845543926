import { expect, it } from 'vitest'
import { startProtected } from '../support/client/keys.ts'
import { startService } from '../support/server/service.ts'

const part = encodeURIComponent

/** The path of a badge. */
const pathOf = (kind: string, namespace: string, name: string, type = 'json') =>
  `/badge/${kind}/${part(namespace)}/${part(name)}.${type}`

/** What a badge shows, in the form of Shields. */
async function shown(url: string, path: string, parameters: Record<string, string> = {}, headers = {}) {
  const response = await fetch(`${url}${path}?${new URLSearchParams(parameters)}`, { headers })
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'application/json; charset=utf-8',
  ])
  return response.json()
}

const ADD =
  'mutation ($name: String!, $delta: SafeInt!) { incrementBy(name: $name, delta: $delta) { value } }'

it('badges: show the value of a counter and the last number of a sequence, and count neither', async () => {
  const { url, ask } = await startService()
  await ask(ADD, { name: 'c', delta: 1_234_567 })
  await ask(
    'mutation { a: nextInSequence(name: "t") { value } b: nextInSequence(name: "t", group: "G") { value } }',
  )
  for (const _ of [1, 2]) {
    expect(await shown(url, pathOf('counter', 'default', 'c'))).toEqual({
      schemaVersion: 1,
      label: 'c',
      message: '1,234,567',
      color: 'blue',
      style: 'flat',
    })
    expect((await shown(url, pathOf('sequence', 'default', 't'))).message).toBe('1')
    const { label, message } = await shown(url, pathOf('sequence', 'default', 't'), { group: 'G' })
    expect([label, message]).toEqual(['t', 'G-1'])
  }
  expect(await ask('{ counter(name: "c") { value } }')).toEqual({ counter: { value: 1_234_567 } })
})

it('badges: show 0 for a counter that was never used, and that a sequence has issued nothing', async () => {
  const { url } = await startService()
  expect((await shown(url, pathOf('counter', 'n', 'nothing'))).message).toBe('0')
  expect((await shown(url, pathOf('counter', 'n', 'nothing'), { period: 'month' })).message).toBe('0')
  expect((await shown(url, pathOf('sequence', 'n', 'nothing'), { group: 'g' })).message).toBe('none')
})

it('badges: show what is left of a counter with a maxValue, with a word in English', async () => {
  const { url, ask } = await startService()
  await ask('mutation { defineCounter(name: "seats", definition: { maxValue: 6000 }) { name } }')
  await ask(ADD, { name: 'seats', delta: 4_763 })
  const path = pathOf('counter', 'default', 'seats')
  for (const [parameters, message] of [
    [{ left: '' }, '1,237 left'],
    [{ left: 'true', locale: 'en-US', format: 'compact' }, '1.2K left'],
    [{ left: '', locale: 'de' }, '1.237'],
  ] as const)
    expect([parameters, (await shown(url, path, parameters)).message]).toEqual([parameters, message])
  await ask('mutation { hold(changes: [{ name: "seats", delta: 37 }]) { id } }')
  expect((await shown(url, path, { left: '' })).message).toBe('1,200 left')
  // More than a safe integer.
  const { MAX_SAFE_INTEGER: max } = Number
  await ask(`mutation { defineCounter(name: "max", definition: { maxValue: ${max} }) { name } }`)
  await ask(ADD, { name: 'max', delta: -2 })
  const left = await shown(url, pathOf('counter', 'default', 'max'), { left: '' })
  expect(left.message).toBe('9,007,199,254,740,993 left')
})

it('badges: show ordinals, of a value or of a period', async () => {
  const { url, ask } = await startService()
  const path = pathOf('counter', 'default', 'c')
  let previous = 0
  for (const [value, message] of [
    [1, '1st'],
    [2, '2nd'],
    [3, '3rd'],
    [4, '4th'],
    [11, '11th'],
    [22, '22nd'],
    [113, '113th'],
    [1_021, '1,021st'],
  ] as const) {
    await ask(ADD, { name: 'c', delta: value - previous })
    previous = value
    expect((await shown(url, path, { ordinal: '' })).message).toBe(message)
  }
  expect((await shown(url, path, { ordinal: 'true', period: 'year', locale: 'en-GB' })).message).toBe(
    '1,021st',
  )
})

it('badges: have colors by the names of Shields and CSS, and draw them', async () => {
  const { url } = await startService()
  const path = pathOf('counter', 'default', 'c')
  const colors = { color: 'RebeccaPurple', labelColor: 'success' }
  expect(await shown(url, path, colors)).toMatchObject({ color: 'rebeccapurple', labelColor: 'success' })
  const imageOf = async (parameters: Record<string, string>) =>
    (await fetch(`${url}${path.replace('json', 'svg')}?${new URLSearchParams(parameters)}`)).text()
  const image = await imageOf(colors)
  expect(image).toContain('fill="rebeccapurple"')
  expect(image).toContain('fill="#4b0"')
  // Not a stripe of it.
  expect(await imageOf({ label: '', labelColor: 'navy' })).not.toContain('navy')
  // Shields has a green of its own.
  expect(await imageOf({ color: 'green', labelColor: '#123' })).toMatch(/fill="#123".*fill="#67ac09"/s)
})

it('badges: have the label, color and style of their address, and a number in a language, short, or of a period', async () => {
  const { url, ask } = await startService()
  await ask(ADD, { name: 'c', delta: 1_234_567 })
  const path = pathOf('counter', 'default', 'c')
  const appearance = { label: 'Besuche', color: 'FF8800', style: 'social' }
  expect(await shown(url, path, { ...appearance, locale: 'de' })).toEqual({
    schemaVersion: 1,
    label: 'Besuche',
    message: '1.234.567',
    color: 'ff8800',
    style: 'social',
  })
  expect((await shown(url, path, { format: 'compact' })).message).toBe('1.2M')
  // What badges of Shields have and these lack.
  const lacking = { logo: 'mysql', logoColor: 'white', logoSize: 'auto', link: 'x', cacheSeconds: '9' }
  expect(await shown(url, path, { ...lacking, style: 'popout-square' })).toMatchObject({
    style: 'flat-square',
  })
  expect((await shown(url, path, { label: '' })).label).toBe('')
  await ask('mutation { reset(name: "c") { value } }')
  expect((await shown(url, path)).message).toBe('0')
  expect((await shown(url, path, { period: 'day', locale: 'xx' })).message).toBe('1,234,567')
  const image = await (await fetch(`${url}${path.replace('json', 'svg')}?label=Besuche&color=FF8800`)).text()
  expect(image).toContain('<title>Besuche: 0</title>')
  expect(image).toContain('fill="#ff8800"')
})

it.each([
  'a/b',
  '/about.html',
  'logo.svg',
  'a b',
  '😀',
  '<script>alert(1)</script>',
  '100%',
  'a?b#c',
  '.json',
])('badges: have exactly the name %j', async (name) => {
  const { url, ask } = await startService()
  await ask(ADD, { name, delta: 7 })
  await ask('mutation ($n: String!) { increment(name: $n, namespace: $n) { value } }', { n: name })
  const { label, message } = await shown(url, pathOf('counter', 'default', name))
  expect([label, message]).toEqual([name, '7'])
  expect((await shown(url, pathOf('counter', name, name))).message).toBe('1')
  // A proxy may have decoded it.
  if (name === 'a/b') expect((await shown(url, '/badge/counter/default/a/b.json')).message).toBe('7')
})

it.each([
  ['', {}, 'Argument "name" must not be empty.'],
  ['x'.repeat(192), {}, 'Argument "name" may have at most 191 characters.'],
  ['c', { period: 'century' }, 'Invalid period; supported: hour, day, week, month, year'],
  ['c', { style: 'round' }, 'Invalid style; supported: flat, '],
  ['c', { color: 'constructor' }, 'Invalid color; supported: six hexadecimal digits, '],
  ['c', { color: 'red" onload="alert(1)' }, 'Invalid color; supported: '],
  ['c', { format: 'long' }, 'Invalid format; supported: compact'],
  ['c', { locale: 'not a language' }, 'Invalid locale; supported: '],
  ['c', { label: 'a\nb' }, 'Invalid label; supported: '],
  ['c', { labelColor: 'url(#a)' }, 'Invalid labelColor; supported: '],
  ['c', { group: 'g' }, 'Unknown parameter "group"; supported: label, color, labelColor, style, period, '],
  ['c', { ['x'.repeat(9000)]: '' }, `Unknown parameter "${'x'.repeat(64)}…"; supported: `],
  ['c', { ordinal: '', locale: 'not a language' }, 'Invalid locale; supported: '],
  ['c', { logo: 'mysql', colour: 'red' }, 'Unknown parameter "colour"; supported: '],
  ['c', { left: '' }, 'This counter has no maxValue.'],
  ['c', { left: 'false' }, 'Invalid left; supported: no value, or true'],
  ['c', { left: '', period: 'day' }, 'Invalid left; supported: without period and ordinal'],
  ['c', { ordinal: '', format: 'compact' }, 'Invalid ordinal; supported: in English, without format'],
  ['c', { ordinal: '', locale: 'de' }, 'Invalid ordinal; supported: in English, without format'],
  ['hourless', { period: 'hour' }, 'This period is not tracked.'],
])('badges: say why they show no number: %j %j', async (name, parameters, text) => {
  const { url, ask } = await startService()
  await ask(
    'mutation { defineCounter(name: "hourless", definition: { periods: [{ period: DAY }] }) { name } }',
  )
  const badge = await shown(url, pathOf('counter', 'default', name), parameters)
  expect(badge).toMatchObject({ label: 'Nth', message: expect.stringContaining(text), isError: true })
  const address = `${url}${pathOf('counter', 'default', name, 'svg')}?${new URLSearchParams(parameters)}`
  const image = await fetch(address)
  expect([image.status, image.headers.get('cache-control')]).toEqual([200, 'no-store'])
  expect(await image.text()).toContain('<title>Nth: ')
})

it('badges: say that their address is malformed', async () => {
  const { url } = await startService()
  const { message } = await shown(url, '/badge/counter/default/%ff.json')
  expect(message).toBe('The address is not percent-encoded UTF-8.')
})

it('badges: are read with the rights of whoever requests them', async () => {
  const { url, admin, createKey } = await startProtected()
  await admin.ask(ADD, { name: 'c', delta: 5 })
  const path = pathOf('counter', 'default', 'c')
  const { secret } = await createKey([{ scopes: ['READ'], names: ['c'] }], {
    origins: ['https://blog.example'],
  })
  const referer = 'https://blog.example/post'
  expect((await shown(url, path, { key: secret }, { referer })).message).toBe('5')
  for (const [parameters, headers] of [
    [{}, {}],
    [{ key: 'nth_wrong' }, { referer }],
    [{ key: secret }, { referer: 'https://other.example/' }],
  ] as const)
    expect(await shown(url, path, parameters, headers)).toMatchObject({ label: 'Nth', isError: true })
  const others = await shown(url, pathOf('counter', 'default', 'd'), { key: secret }, { referer })
  expect(others.message).toContain('do not include the scope READ')
})

it('badges: are readable where anyone may read, and take nothing from the changes of a minute', async () => {
  const { url, send } = await startProtected({
    access: { anonymous: ['READ', 'ADD'], anonymousPerMinute: 1 },
  })
  for (let times = 0; times < 20; times++)
    expect((await shown(url, pathOf('counter', 'default', 'c'))).message).toBe('0')
  expect((await send('mutation { increment(name: "c") { value } }')).data).toEqual({
    increment: { value: 1 },
  })
})

it('badges: are cached for a minute, and not sent again to who has them', async () => {
  const { url, ask } = await startService()
  for (const type of ['svg', 'json']) {
    const address = `${url}${pathOf('counter', 'default', 'c', type)}`
    const { headers, status } = await fetch(address)
    expect([status, headers.get('cache-control'), headers.get('vary')]).toEqual([
      200,
      'max-age=60',
      'Origin, Authorization',
    ])
    const again = () => fetch(address, { headers: { 'if-none-match': `"x", ${headers.get('etag')}` } })
    const same = await again()
    expect([same.status, await same.text()]).toEqual([304, ''])
    await ask(ADD, { name: 'c', delta: 1 })
    expect((await again()).status).toBe(200)
  }
})

it('badges: answer HEAD, and no other method or path', async () => {
  const { url } = await startService()
  const path = pathOf('counter', 'default', 'c', 'svg')
  const head = await fetch(`${url}${path}`, { method: 'HEAD' })
  expect([head.status, Number(head.headers.get('content-length')) > 500]).toEqual([200, true])
  expect((await fetch(`${url}${path}`, { method: 'POST' })).status).toBe(405)
  for (const other of ['/badge/counter/default/c', '/badge/counter/c.svg', '/badge/group/default/c.svg'])
    expect([other, (await fetch(`${url}${other}`)).status]).toEqual([other, 404])
})
