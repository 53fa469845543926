import { execFile } from 'node:child_process'
import { access, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { fieldsWithRights, schema } from '../../src/graphql/schema.ts'
import { errorCodes } from '../../src/rules/errors.ts'
import { subscribe } from '../support/client/events.ts'
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

/** The files for readers, with the README first. */
async function docs(): Promise<{ path: string; text: string }[]> {
  const names = (await readdir(join(ROOT, 'docs'))).toSorted()
  const paths = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...names.map((name) => `docs/${name}`)]
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

it('shows what its examples print, in any file, also when they are run once more', async () => {
  const { url, send } = await startService()
  const blocks = (await docs()).flatMap(({ text }) => blocksOf(text))
  const examples = blocks.filter(({ next }) => next && isResponse(next))
  // These four need a fault or a key, which the text beside them names.
  expect(blocks.filter(isResponse)).toHaveLength(examples.length + 4)
  expect(examples.length).toBeGreaterThan(30)
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

it('shows no GraphQL that the server rejects, unless with its error', async () => {
  const { url, ask } = await startService()
  const operations = (await docs())
    .flatMap(({ text }) => blocksOf(text))
    .filter(({ language, next }) => language === 'graphql' && !(next && isResponse(next)))
  expect(operations.length).toBeGreaterThan(5)
  for (const { text } of operations) {
    if (text.startsWith('subscription')) await (await subscribe(url, text)).data()
    else await ask(text)
  }
})

it('explains every error code, with a request that causes it and its response', async () => {
  const text = await readFile(join(ROOT, 'docs/errors.md'), 'utf8')
  const sections = new Map(text.split(/^## /m).map((section) => [section.split('\n')[0], section]))
  for (const code of Object.keys(errorCodes)) {
    const blocks = blocksOf(sections.get(code) ?? '')
    expect([code, blocks.filter(isResponse).some(({ text }) => text.includes(`"${code}"`))]).toEqual([
      code,
      true,
    ])
    expect([code, text.includes(`\`${code}\`](#${code.toLowerCase()})`)]).toEqual([code, true])
  }
})

it('has links that lead somewhere, in the repository and on the server', async () => {
  const { url } = await startService()
  const files = await docs()
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
      const served = !file.endsWith('.md') || (await fetch(`${url}/${file}`)).status === 200
      if (!isThere || !known || !served) broken.push(`${path}: ${link}`)
    }
  }
  expect(broken).toEqual([])
})

it('names the address of each link that has a name', async () => {
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
  expect(found).toBeGreaterThan(20)
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

it('lists every variable that the configuration reads', async () => {
  const source = await readFile(join(ROOT, 'src/config.ts'), 'utf8')
  const variables = [...source.matchAll(/^ {2}([A-Z_]+): /gm)].map(([, name]) => name)
  expect(variables.length).toBeGreaterThan(3)
  const text = await readFile(join(ROOT, 'README.md'), 'utf8')
  const cells = [...text.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|/gm)].map(([, cell]) => cell ?? '')
  const listed = cells.flatMap((cell) => cell.replaceAll('`', '').split(', '))
  expect(listed.toSorted()).toEqual(variables.toSorted())
})

it('has a README of at most 150 lines, with a page of at most 20', async () => {
  const text = await readFile(join(ROOT, 'README.md'), 'utf8')
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(150)
  const page = blocksOf(text).find(({ language }) => language === 'html')?.text ?? ''
  const lines = page.trim().split('\n').length
  expect(lines).toBeGreaterThan(5)
  expect(lines).toBeLessThanOrEqual(20)
})

it('shows the right that each field requires', async () => {
  const text = await readFile(join(ROOT, 'docs/security.md'), 'utf8')
  const [, table = ''] = /\| Field \| Scope \| On \|\n\| --- \| --- \| --- \|\n(.*?)\n\n/s.exec(text) ?? []
  const rows = fieldsWithRights(schema).map(({ type, field, right: { scope, covers } }) => {
    const name = ['Query', 'Mutation'].includes(type) ? field.name : `${type}.${field.name}`
    return `| \`${name}\` | ${scope ?? 'none'} | ${covers} |`
  })
  expect(table.split('\n').toSorted()).toEqual(rows.toSorted())
})

it('lists the changes of this version', async () => {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  expect(await readFile(join(ROOT, 'CHANGELOG.md'), 'utf8')).toMatch(new RegExp(`^## ${version}$`, 'm'))
})

it('shows a change by the client that counts', async () => {
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
