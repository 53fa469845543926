import { execFile } from 'node:child_process'
import { access, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { readConfig, VARIABLES } from '../../src/config.ts'
import { subscribe } from '../support/client/events.ts'
import { fieldsWithRights } from '../support/fieldsWithRights.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

const ROOT = join(import.meta.dirname, '../..')
const URL_OF_DOCS = 'http://127.0.0.1:4000'

/** A fenced block of a file: its language, and its text. */
interface Block {
  language: string
  text: string
  /** The block that follows after nothing but an empty line. */
  next?: Block
}

/** The files for readers, with the README first. The examples of the reference have a test of their own. */
async function docs(withReference = false): Promise<{ path: string; text: string }[]> {
  const texts = await readdir(join(ROOT, 'docs'), { recursive: withReference })
  const names = texts.filter((name) => name.endsWith('.md')).toSorted()
  const beside = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'examples/README.md']
  const paths = [...beside, ...names.map((name) => `docs/${name}`)]
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(ROOT, path), 'utf8') })))
}

function blocksOf(text: string): Block[] {
  const blocks: Block[] = []
  let end = -1
  for (const { 0: fenced, 1: language = '', 2: inner = '', index } of text.matchAll(
    /^```(\w*)\n([\s\S]*?)^```$/gm,
  )) {
    const block: Block = { language, text: inner }
    const previous = blocks.at(-1)
    if (previous && text.slice(end, index) === '\n\n') previous.next = block
    blocks.push(block)
    end = index + fenced.length
  }
  return blocks
}

function isResponse({ language, text }: Block): boolean {
  return language === 'json' && /^\s*\{\s*"(data|errors)"/.test(text)
}

/** The only example that prints something else when it is run once more. */
function isFirstCall({ language, text }: Block): boolean {
  return language === 'graphql' && text.includes('increment(name: "visitors", namespace: "tour")')
}

it('docs: shows what its examples print, in any file, also when they are run once more', async () => {
  const { url, send } = await startService()
  const blocks = (await docs()).flatMap(({ text }) => blocksOf(text))
  const examples = blocks.filter((block) => block.next && isResponse(block.next) && !isFirstCall(block))
  expect(blocks.filter(isResponse)).toHaveLength(examples.length + 1)
  expect(examples.length).toBeGreaterThan(10)
  for (const { language, text, next } of [...examples, ...examples]) {
    if (language === 'graphql') {
      expect(await send(text.trimEnd())).toEqual(JSON.parse(next?.text ?? ''))
    } else {
      const command = text.replaceAll(URL_OF_DOCS, url)
      expect(command).not.toBe(text)
      const { stdout } = await promisify(execFile)('sh', ['-c', command])
      expect(stdout).toBe(next?.text)
    }
  }
})

it('docs: counts from 1 with the first call of the README, and then goes on', async () => {
  const { send } = await startService()
  const { text = '', next } =
    blocksOf(await readFile(join(ROOT, 'README.md'), 'utf8')).find(isFirstCall) ?? {}
  expect(await send(text.trimEnd())).toEqual(JSON.parse(next?.text ?? ''))
  expect(await send(text.trimEnd())).toEqual({ data: { increment: { value: 2, valueIn: 2 } } })
})

it('docs: shows no GraphQL that the server rejects, unless with its error', async () => {
  const { url, ask } = await startService()
  const operations = (await docs())
    .flatMap(({ text }) => blocksOf(text))
    .filter(({ language, next }) => language === 'graphql' && !(next && isResponse(next)))
  expect(operations.length).toBeGreaterThan(3)
  for (const { text } of operations) {
    if (text.startsWith('subscription')) await (await subscribe(url, text)).data()
    else await ask(text)
  }
})

it('docs: has links that lead somewhere, in the repository', async () => {
  const files = await docs(true)
  const headings = new Map(files.map(({ path, text }) => [path, headingsOf(text)]))
  const broken: string[] = []
  for (const { path, text } of files) {
    for (const [, link = ''] of withoutBlocks(text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue
      const [target = '', heading] = link.split('#')
      const file = target === '' ? path : posix.join(posix.dirname(path), target)
      const isThere = await access(join(ROOT, file)).then(
        () => true,
        () => false,
      )
      const known = heading === undefined || headings.get(file)?.includes(heading)
      if (!isThere || !known) broken.push(`${path}: ${link}`)
    }
  }
  expect(broken).toEqual([])
})

it('docs: is served as pages, whose links lead somewhere, to headings too', async () => {
  const { url } = await startService()
  const responses = new Map<string, { status: number; type: string | null; html: string }>()
  const get = async (path: string) => {
    const response = await fetch(url + path, { headers: { accept: 'text/html' } })
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      html: await response.text(),
    }
  }
  const links: { from: string; path: string; fragment: string | undefined }[] = []
  const paths = new Set(['/docs/'])
  // Grows while it is walked.
  for (const path of paths) {
    const response = await get(path)
    responses.set(path, response)
    if (!path.startsWith('/docs/') || path.endsWith('.md')) continue
    for (const [, link = ''] of response.html.matchAll(/ (?:href|src)="(?!https?:)([^"]*)"/g)) {
      const [target, fragment] = link.split('#')
      links.push({ from: path, path: target || path, fragment })
      paths.add(target || path)
    }
  }
  const broken = links.filter(({ path, fragment }) => {
    const { status, html } = responses.get(path) ?? { status: 404, html: '' }
    return status !== 200 || (fragment !== undefined && !html.includes(` id="${fragment}"`))
  })
  expect(broken).toEqual([])
  for (const { path, text } of await docs(true)) {
    const name = path.replace(/^docs\/|(\/README)?\.md$/g, '')
    const address = path === 'docs/README.md' ? '/docs/' : `/docs/${name.toLowerCase()}`
    const { type, html } = responses.get(address) ?? {}
    expect([address, type]).toEqual([address, 'text/html; charset=utf-8'])
    expect(html).toMatch(/<h1 id="[^"]/)
    expect(html?.match(/<h[1-6] id=/g)?.length).toBe(headingsOf(text).length)
    expect(html?.match(/<table>/g)?.length).toBe(withoutBlocks(text).match(/^\| ?-/gm)?.length)
    expect(responses.get(`/${path}`)).toEqual({ status: 200, type: 'text/plain; charset=utf-8', html: text })
  }
})

it('docs: names the address of each link that has a name', async () => {
  const broken: string[] = []
  let found = 0
  for (const { path, text } of await docs()) {
    const prose = withoutBlocks(text).replace(/`[^`\n]*`/g, 'code')
    const addresses = [...prose.matchAll(/^\[([^\]]+)\]: https:\S+$/gm)].map(([, name]) => name)
    const links = [...prose.matchAll(/\]\[([^\]]+)\]/g)].map(([, name]) => name)
    for (const name of links) if (!addresses.includes(name)) broken.push(`${path}: ${name}`)
    for (const name of addresses) if (!links.includes(name)) broken.push(`${path}: ${name} is not linked`)
    found += links.length
  }
  expect(found).toBeGreaterThan(3)
  expect(broken).toEqual([])
})

/** The fragments that lead to the headings of a file, as GitHub makes them. */
function headingsOf(text: string): string[] {
  return [...withoutBlocks(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

function withoutBlocks(text: string): string {
  return text.replace(/^```[\s\S]*?^```$/gm, '')
}

it('docs: explains messages as Nth writes them', async () => {
  const text = await readFile(join(ROOT, 'docs/troubleshooting.md'), 'utf8')
  const symptoms = [...text.matchAll(/^\| (.+?) \| /gm)].flatMap(([, cell = '']) => [
    ...cell.matchAll(/`([^`]* [^`]*)`/g),
  ])
  const names = (await readdir(join(ROOT, 'src'), { recursive: true })).filter((name) => name.endsWith('.ts'))
  const files = [...names.map((name) => join('src', name)), 'client/client.ts']
  const sources = await Promise.all(files.map((name) => readFile(join(ROOT, name), 'utf8')))
  const unknown = symptoms.flatMap(([, message = '']) => {
    const parts = message.split('…').map((part) => part.trim())
    const isWritten = sources.some((source) => parts.every((part) => source.includes(part)))
    return isWritten ? [] : [message]
  })
  expect(symptoms.length).toBeGreaterThan(15)
  expect(unknown).toEqual([])
})

it('docs: has a row for each variable of the configuration, with the default that it has', async () => {
  const text = await readFile(join(ROOT, 'docs/configuration.md'), 'utf8')
  const rows = [...text.matchAll(/^\| `([A-Z_]+)` \| (.+?) \| (.+) \|$/gm)]
  expect(rows.map(([, name]) => name).toSorted()).toEqual([...VARIABLES.values()].toSorted())
  const unset = readConfig({})
  const settings = new Map<string, unknown>(Object.entries({ ...unset, ...unset.access }))
  const cells = new Map(rows.map(([, name = '', cell = '']) => [name, /^`(.+)`$/.exec(cell)?.[1]]))
  for (const [setting, name] of VARIABLES) {
    expect([name, readConfig({ [name]: cells.get(name) })]).toEqual([name, unset])
    // Other defaults are said in words.
    if (cells.get(name) === undefined) expect([undefined, []]).toContainEqual(settings.get(setting))
  }
})

it('docs: has a README of at most 120 lines, with a page of at most 20 and a small picture', async () => {
  const text = await readFile(join(ROOT, 'README.md'), 'utf8')
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(120)
  const page = blocksOf(text).find(({ language }) => language === 'html')?.text ?? ''
  const lines = page.trim().split('\n').length
  expect(lines).toBeGreaterThan(5)
  expect(lines).toBeLessThanOrEqual(20)
  const pictures = [...text.matchAll(/!\[[^\]]{20,}\]\(([^)]+)\)/g)].map(([, path = '']) => path)
  expect(pictures).toHaveLength(1)
  for (const path of pictures) expect((await stat(join(ROOT, path))).size).toBeLessThan(150_000)
})

it('docs/security.md: lists each mutation beside the scope that it requires', async () => {
  const text = await readFile(join(ROOT, 'docs/security.md'), 'utf8')
  const rows = [...text.matchAll(/^\| ([A-Z]+) \| (.*?) ?\| .*\|$/gm)]
  const shown = rows.flatMap(([, scope, cell = '']) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, field]) => `${field}: ${scope}`),
  )
  const required = fieldsWithRights().flatMap(({ type, field, right: { scope } }) =>
    type === 'Mutation' && scope ? [`${field.name}: ${scope}`] : [],
  )
  expect(required.length).toBeGreaterThan(20)
  expect(shown.toSorted()).toEqual(required.toSorted())
})

it('docs: shows a change by the client that counts', async () => {
  const { url, ask } = await startService()
  const page = await readFile(join(ROOT, 'docs/exactly-once.md'), 'utf8')
  const example = blocksOf(page).find(({ language }) => language === 'js')?.text ?? ''
  const file = join(await temporaryDirectory(), 'example.mjs')
  await writeFile(
    file,
    `${example.replace('nth-counters/client', join(ROOT, 'dist/client/client.js')).replace(URL_OF_DOCS, url)}
     console.log(increment.value)`,
  )
  expect((await promisify(execFile)(process.execPath, [file])).stdout).toBe('1\n')
  expect(await ask('{ counter(name: "buyers") { value } }')).toEqual({ counter: { value: 1 } })
})
