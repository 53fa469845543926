import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { expect, it } from 'vitest'

const SRC = join(import.meta.dirname, '../src')

/** What the files of each folder may import, beside packages and what is in the same folder. */
const allowed: Record<string, string[]> = {
  core: ['core/*', 'mysql'],
  'core/access': ['core', 'core/eventLoop', 'core/counters', 'core/sequences', 'mysql/access'],
  'core/time': [],
  'core/eventLoop': ['core'],
  'core/live': ['core', 'core/time', 'core/eventLoop', 'core/counters', 'core/sequences', 'core/groupCommit'],
  'core/counters': ['core', 'core/time', 'core/eventLoop', 'core/groupCommit', 'mysql/counters'],
  'core/sequences': [
    'core',
    'core/time',
    'core/eventLoop',
    'core/groupCommit',
    'core/counters',
    'mysql/sequences',
  ],
  'core/transfer': ['core', 'core/access', 'core/time', 'core/counters', 'core/sequences'],
  'core/groupCommit': ['core', 'core/time', 'core/eventLoop', 'core/counters', 'core/sequences'],
  mysql: ['mysql/*', 'core/*'],
  'mysql/connections': ['mysql', 'mysql/connections/hosts', 'core'],
  'mysql/connections/hosts': ['mysql', 'mysql/connections', 'core'],
  'mysql/access': ['mysql', 'mysql/connections', 'core/*'],
  'mysql/counters': [
    'mysql',
    'mysql/connections',
    'mysql/flush',
    'mysql/sequences',
    'mysql/leaderboard',
    'core/*',
  ],
  'mysql/leaderboard': ['mysql', 'mysql/connections', 'mysql/counters', 'core/*'],
  'mysql/sequences': ['mysql', 'mysql/connections', 'mysql/flush', 'mysql/counters', 'core/*'],
  'mysql/transfer': [
    'mysql',
    'mysql/access',
    'mysql/connections',
    'mysql/connections/hosts',
    'mysql/counters',
    'mysql/sequences',
    'mysql/leaderboard',
    'core/*',
  ],
  'mysql/flush': [
    'mysql',
    'mysql/connections',
    'mysql/connections/hosts',
    'mysql/counters',
    'mysql/sequences',
    'core/*',
  ],
  'mysql/startup': ['mysql', 'mysql/connections', 'mysql/connections/hosts', 'core'],
  'mysql/privateServer': ['mysql/connections', 'core'],
  graphql: ['graphql/*', 'core/*'],
  'graphql/access': ['graphql/*', 'core/*'],
  'graphql/arguments': ['graphql', 'core/*'],
  'graphql/counters': ['graphql/*', 'core/*'],
  'graphql/sequences': ['graphql/*', 'core/*'],
  http: ['http/*', 'graphql', 'core', 'core/access'],
  'http/access': ['http/connections', 'core', 'core/access'],
  'http/connections': ['core'],
  'http/graphql': [
    'http/graphql/documents',
    'http/access',
    'http/connections',
    'http/live',
    'graphql',
    'core',
    'core/access',
    'core/eventLoop',
  ],
  'http/graphql/documents': ['http/graphql', 'http/connections', 'graphql', 'core', 'core/eventLoop'],
  'http/live': [
    'http/graphql/documents',
    'http/access',
    'http/connections',
    'http/graphql',
    'graphql',
    'core',
    'core/access',
    'core/eventLoop',
    'core/live',
  ],
  'http/pages': ['graphql', 'core'],
  'http/pages/graphiql': ['http/pages'],
  commands: ['', 'commands/*', 'process', 'mysql/*', 'core/*', 'http/access'],
  'commands/transfer': ['process', 'mysql/connections', 'mysql/transfer', 'core/*'],
  metrics: ['core'],
  tracing: ['core'],
  process: ['', 'metrics', 'mysql/connections', 'http/access', 'http/connections', 'core', 'core/access'],
  '': ['*'],
}

/** What belongs to one layer only. */
const owned: Record<string, RegExp> = {
  mysql: /^mysql2/,
  graphql: /^@pothos\//,
  http: /^graphql-yoga$|^@graphql-yoga\/|^node:http$/,
}

interface SourceFile {
  path: string
  /** Its folder below `src`; empty for `src` itself. */
  folder: string
  text: string
  /** Names of packages, and paths of files below `src`. */
  imports: string[]
}

async function sourceFiles(): Promise<SourceFile[]> {
  const entries = await readdir(SRC, { recursive: true })
  const paths = entries.filter((path) => path.endsWith('.ts'))
  return Promise.all(
    paths.map(async (path) => {
      const text = await readFile(join(SRC, path), 'utf8')
      const names = [...text.matchAll(/(?:from|import) '([^']+)'/g)].map(([, name]) => name ?? '')
      const imports = names.map((name) =>
        name.startsWith('.') ? normalize(join(dirname(path), name)) : name,
      )
      return { path, folder: folderOf(path), text, imports }
    }),
  )
}

function folderOf(path: string): string {
  const folder = dirname(path)
  return folder === '.' ? '' : folder
}

function matches(folder: string, pattern: string): boolean {
  if (!pattern.endsWith('*')) return folder === pattern
  const parent = pattern.slice(0, -2)
  return pattern === '*' || folder === parent || folder.startsWith(`${parent}/`)
}

it('lets every folder import only what it may', async () => {
  const files = await sourceFiles()
  const paths = new Set(files.map(({ path }) => path))
  const offences = files.flatMap(({ path, folder, imports }) =>
    imports
      .filter((target) => paths.has(target) && folderOf(target) !== folder)
      .filter((target) => !allowed[folder]?.some((pattern) => matches(folderOf(target), pattern)))
      .map((target) => `${path} imports ${target}`),
  )
  expect(offences).toEqual([])
})

it('has no circle of imports, those of types included', async () => {
  const importsOf = new Map((await sourceFiles()).map(({ path, imports }) => [path, imports]))
  const finished = new Set<string>()
  function circleFrom(path: string, trail: readonly string[]): string[] | undefined {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path]
    if (finished.has(path)) return undefined
    for (const target of importsOf.get(path) ?? []) {
      const circle = circleFrom(target, [...trail, path])
      if (circle) return circle
    }
    finished.add(path)
    return undefined
  }
  expect([...importsOf.keys()].flatMap((path) => circleFrom(path, []) ?? [])).toEqual([])
})

it('keeps SQL, the schema builder and HTTP each in its own layer', async () => {
  const offences = (await sourceFiles()).flatMap(({ path, folder, imports }) =>
    Object.entries(owned).flatMap(([owner, packages]) =>
      folder.split('/')[0] === owner
        ? []
        : imports.filter((name) => packages.test(name)).map((name) => `${path} imports ${name}`),
    ),
  )
  expect(offences).toEqual([])
})

it('reads the environment in config.ts only', async () => {
  const readers = (await sourceFiles()).filter(({ text }) => text.includes('process.env'))
  expect(readers.map(({ path }) => path)).toEqual(['config.ts'])
})

it('has no folder that the rules overlook', async () => {
  const folders = new Set((await sourceFiles()).map(({ folder }) => folder))
  expect([...folders].toSorted()).toEqual(Object.keys(allowed).toSorted())
})
