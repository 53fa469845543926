import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { readMigrations } from '../../src/repository/migrate.ts'
import { FIRST_RELEASE } from '../support/server/firstRelease.ts'

const migrations = await readMigrations(
  pathToFileURL(`${join(import.meta.dirname, '../../schema/migrations')}/`),
)
const released = migrations.slice(0, FIRST_RELEASE.migrations.length)
const later = migrations.slice(FIRST_RELEASE.migrations.length)

/** What breaks a statement of an older server: what it uses is gone or another, or a row that it inserts is refused. */
const BREAKING =
  /\b(drop|rename|modify|change|truncate|delete|unique|primary|foreign|check|trigger)\b|\badd\b(?!.*\bdefault\b).*\bnot null\b/i

/** What breaks older servers in the text of an expansion. New tables may be anything. */
function breakingIn(text: string): string[] {
  return text
    .replaceAll(/^--.*$/gm, '')
    .split(/;$/m)
    .filter((statement) => !/^\s*create table if not exists\b/i.test(statement))
    .flatMap((statement) => BREAKING.exec(statement.replaceAll(/\s+/g, ' '))?.[0] ?? [])
}

function orderOf(version: string): number[] {
  return version.split('.').map(Number)
}

it('migrations: those of the first release state no effect', () => {
  expect(released.map(({ name }) => name)).toEqual(FIRST_RELEASE.migrations)
  for (const migration of released)
    expect(migration).toMatchObject({ kind: 'contraction', oldest: undefined })
})

it('migrations: each later file states whether it expands, or which version it needs', () => {
  const unstated = later.filter((file) => file.kind === 'contraction' && file.oldest === undefined)
  expect(unstated.map(({ name }) => name)).toEqual([])
})

it('migrations: need no version that is not released yet', () => {
  const needed = later.flatMap((file) => (file.kind === 'contraction' && file.oldest) || [])
  const [major = 0, minor = 0, patch = 0] = orderOf(manifest.version)
  for (const [a = 0, b = 0, c = 0] of needed.map(orderOf)) {
    expect(a - major || b - minor || c - patch).toBeLessThanOrEqual(0)
  }
})

it('migrations: expansions only add', () => {
  const breaking = later
    .filter(({ kind }) => kind === 'expansion')
    .map(({ name, text }) => [name, breakingIn(text)])
  expect(breaking.filter(([, found]) => found?.length)).toEqual([])
})

it.each([
  ['alter table counter add column note varchar(9) null', []],
  ["alter table counter add column note int not null default '7', add key counter_note (note)", []],
  ['create table if not exists note (id int not null,\n  primary key (id)\n)', []],
  ['deallocate prepare add_note', []],
  ['alter table counter add column note int not null', ['add column note int not null']],
  ["set @add = if(1, 'alter table counter\n  drop column slots', 'do 0')", ['drop']],
  ['rename table counter to c', ['rename']],
  ['alter table counter modify name blob', ['modify']],
  ['create unique index counter_note on counter (note)', ['unique']],
  ['-- expands\ndelete from counter', ['delete']],
])('migrations: what breaks older servers is recognised: %s', (statement, found) => {
  expect(breakingIn(`${statement};\n`)).toEqual(found)
})
