import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '..')

/**
 * The floors of `src` from the top: data goes down on its way in and up on its way out. A file imports from its own folder
 * and from lower floors only. What stands on one floor side by side doesn't import each other.
 */
const FLOORS = [
  ['main.ts'],
  ['commands'],
  ['app.ts'],
  ['workers.ts'],
  ['config.ts'],
  ['http'],
  ['graphql'],
  ['repository'],
  ['commit'],
  ['mysql'],
  ['rules', 'operations'],
]

/** Packages that only some floors may use. */
const OWNED = [
  { packages: /^mysql2/, owners: ['commands', 'repository', 'commit', 'mysql'] },
  { packages: /^@pothos\//, owners: ['graphql'] },
  { packages: /^graphql-yoga$|^@graphql-yoga\/|^node:http$/, owners: ['http'] },
]

interface SourceFile {
  path: string
  /** Its folder, or its own name if it is in none. */
  room: string
  text: string
  /** Names of packages, and paths of files, relative to the folder that is read. */
  imports: string[]
}

const files = readFiles('src')

/** The files below a folder, whose paths are relative to it. */
async function readFiles(folder: string): Promise<SourceFile[]> {
  const entries = await readdir(join(ROOT, folder), { recursive: true })
  const paths = entries.filter((path) => path.endsWith('.ts') && !path.startsWith('node_modules'))
  return Promise.all(
    paths.map(async (path) => {
      const text = await readFile(join(ROOT, folder, path), 'utf8')
      const names = [...text.matchAll(/(?:from |import |import\()'([^']+)'/g)].map(([, name]) => name ?? '')
      const imports = names.map((name) =>
        name.startsWith('.') ? normalize(join(dirname(path), name)) : name,
      )
      return { path, room: roomOf(path), text, imports }
    }),
  )
}

function roomOf(path: string): string {
  return dirname(path) === '.' ? path : dirname(path)
}

function floorOf(room: string): number {
  return FLOORS.findIndex((rooms) => rooms.includes(room))
}

describe('the layout of src', () => {
  it('has a floor for every file, and no folders below a floor', async () => {
    const paths = (await files).filter(({ room }) => floorOf(room) < 0).map(({ path }) => path)
    expect(paths).toEqual([])
  })

  it('imports from lower floors only, so folders form no circles', async () => {
    const paths = new Set((await files).map(({ path }) => path))
    const offences = (await files).flatMap(({ path, room, imports }) =>
      imports
        .filter((target) => paths.has(target) && roomOf(target) !== room)
        .filter((target) => floorOf(roomOf(target)) <= floorOf(room))
        .map((target) => `${path} imports ${target}`),
    )
    expect(offences).toEqual([])
  })

  it.each(['src', 'bench'])('has no circle of imports in %s, those of types included', async (folder) => {
    const importsOf = new Map((await readFiles(folder)).map(({ path, imports }) => [path, imports]))
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

  it('defines a type name once', async () => {
    const pathsOf = new Map<string, string[]>()
    for (const { path, text } of await files) {
      const definitions = text.matchAll(/^(?:export )?(?:abstract )?(?:interface|type|class|enum) (\w+)/gm)
      for (const [, name = ''] of definitions) pathsOf.set(name, [...(pathsOf.get(name) ?? []), path])
    }
    expect([...pathsOf].filter(([, paths]) => paths.length > 1)).toEqual([])
  })

  it('keeps SQL, the schema builder and HTTP each on its own floors', async () => {
    const offences = (await files).flatMap(({ path, room, imports }) =>
      OWNED.filter(({ owners }) => !owners.includes(room)).flatMap(({ packages }) =>
        imports.filter((name) => packages.test(name)).map((name) => `${path} imports ${name}`),
      ),
    )
    expect(offences).toEqual([])
  })

  it('reads the environment in config.ts only', async () => {
    const readers = (await files).filter(({ text }) => text.includes('process.env'))
    expect(readers.map(({ path }) => path)).toEqual(['config.ts'])
  })

  /** The tables that hold numbers. */
  const NUMBER_TABLES = [
    'counter',
    'counter_history',
    'counter_subject',
    'counter_value',
    'reservation',
    'sequence',
    'sequence_group',
    'sequence_subject',
    'sequence_value',
  ]

  /**
   * The files outside `commit` that write these tables, and how. All other files use operations of the group commit,
   * which alone have its fence, its order of locks and its rules. Where the text of a statement has the name of a table as a
   * variable, these are the names in the file.
   */
  const WRITERS = {
    // Into an empty database.
    'commands/restoreRows.ts': { 'insert into': NUMBER_TABLES },
    // Creates counters, at 0.
    'repository/counterRows.ts': { 'insert into': ['counter', 'counter_value'] },
    // What is old, or belongs to something deleted.
    'repository/jobs.ts': {
      'delete from': NUMBER_TABLES.filter(
        (table) => /_|reservation/.test(table) && table !== 'counter_value',
      ),
    },
    // A definition holds no number. On a cluster, a change of it conflicts with flushes on other nodes.
    'repository/sequenceDefinition.ts': {
      'delete from': ['sequence'],
      'insert into': ['sequence'],
      update: ['sequence', 'sequence_group', 'sequence_value'],
    },
    // Creates sequence groups without a number.
    'repository/sequences.ts': { 'insert into': ['sequence_group'] },
    // The salt of one that an older version created.
    'repository/subjects.ts': { update: ['counter', 'sequence'] },
  }

  /** Those of `commit/subjectStatements.ts` that have the names of tables. */
  const CONSTANTS: Record<string, string> = { counter_subject: 'COUNTS', sequence_subject: 'NUMBERS' }

  const WRITE =
    /(?<!\b(?:for|key) )\b(insert(?: ignore)? into|replace into|update|delete from|delete \w+ from|truncate|alter table)\s+((?:[\w`]|\$\{\w+\})[^;]*?)(?=\bset\b|\bvalues\b|\bselect\b|\bwhere\b|[('`;]|$)/gi

  /** How a file writes the tables that hold numbers. */
  function writesIn({ text }: SourceFile) {
    const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
    const isNamed = (table: string) =>
      code.includes(`'${table}'`) || code.includes(`${CONSTANTS[table]}.table`)
    const named = NUMBER_TABLES.filter(isNamed)
    const writes: Record<string, string[]> = {}
    for (const [, verb = '', target = ''] of code.matchAll(WRITE)) {
      const words: string[] = target.match(/\w+|\$\{/g) ?? []
      const tables = words.includes('${') ? named : NUMBER_TABLES.filter((table) => words.includes(table))
      const name = verb.replace(/^delete \w+ from/, 'delete from').toLowerCase()
      if (tables.length > 0) writes[name] = [...new Set([...(writes[name] ?? []), ...tables])].toSorted()
    }
    return writes
  }

  it('writes numbers in commit only, but for what creates, restores and sweeps rows', async () => {
    const writers = (await files)
      .filter(({ room }) => room !== 'commit')
      .map((file) => [file.path, writesIn(file)] as const)
      .filter(([, writes]) => Object.keys(writes).length > 0)
    expect(Object.fromEntries(writers)).toEqual(WRITERS)
  })
})
