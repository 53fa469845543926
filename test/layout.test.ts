import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { expect, it } from 'vitest'

const SRC = join(import.meta.dirname, '../src')

/** What the files of each folder may import, beside packages: the layout's one rule. */
const allowed: Record<string, string[]> = {
  core: ['core'],
  mysql: ['mysql', 'core'],
  graphql: ['graphql', 'core'],
  http: ['http', 'graphql', 'core'],
}

/** What belongs to one folder only. */
const owned: Record<string, RegExp> = {
  mysql: /^mysql2|^umzug$/,
  graphql: /^@pothos\//,
  http: /^graphql-yoga$|^@graphql-yoga\/|^node:http$/,
}

async function sourceFiles() {
  const entries = await readdir(SRC, { recursive: true })
  const paths = entries.filter((path) => path.endsWith('.ts'))
  return Promise.all(
    paths.map(async (path) => {
      const text = await readFile(join(SRC, path), 'utf8')
      const imports = [...text.matchAll(/(?:from|import) '([^']+)'/g)].map(([, name]) => name ?? '')
      return { path, folder: path.includes('/') ? (path.split('/')[0] ?? '') : '', text, imports }
    }),
  )
}

it('lets every folder import only core and what lies between', async () => {
  const offences = (await sourceFiles()).flatMap(({ path, folder, imports }) => {
    const folders = allowed[folder]
    if (!folders) return []
    return imports
      .filter((name) => name.startsWith('.'))
      .map((name) => relative(SRC, join(SRC, dirname(path), name)).split('/')[0] ?? '')
      .filter((target) => !folders.includes(target))
      .map((target) => `${path} imports ${target}`)
  })
  expect(offences).toEqual([])
})

it('keeps SQL, the schema builder and HTTP each in its own folder', async () => {
  const offences = (await sourceFiles()).flatMap(({ path, folder, imports }) =>
    Object.entries(owned).flatMap(([owner, packages]) =>
      folder === owner
        ? []
        : imports.filter((name) => packages.test(name)).map((name) => `${path} imports ${name}`),
    ),
  )
  expect(offences).toEqual([])
})

it('reads the environment in config.ts only', async () => {
  const readers = (await sourceFiles()).filter(({ text }) => text.includes('process.env'))
  expect(readers.map(({ path }) => path)).toEqual(['process/config.ts'])
})

it('has no file that two rules overlook: every folder is known', async () => {
  const folders = new Set((await sourceFiles()).map(({ folder }) => folder))
  expect([...folders].toSorted()).toEqual(['', 'core', 'graphql', 'http', 'mysql', 'process'])
})
