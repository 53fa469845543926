import { execFile } from 'node:child_process'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { freshDatabase, query, urlOf } from '../support/database/database.ts'
import { clientArguments, findMysqlClient } from '../support/database/fetchedProgram.ts'
import { openTestNth } from '../support/server/nth.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../..')
const mysql = await findMysqlClient()

it.runIf(mysql)('transfer.md: documents commands that work, in their order', { tags: 'slow' }, async () => {
  const [target, foreign] = [await freshDatabase(), await freshDatabase({ migrated: false })]
  const { counters } = openTestNth(target)
  await counters.incrementBy({ namespace: 'default', name: 'a' }, 3)
  await query(
    foreign,
    'create table booksales (title varchar(60) character set utf8mb4, copies int)',
    `insert into booksales values ('Bulldozer', 12), ('Bücher, "neu"', 3), ('=1\\\\2;', 4)`,
  )
  const directory = await temporaryDirectory()
  const nth = join(directory, 'nth')
  await writeFile(nth, `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'dist/bundle/main.js')} "$@"\n`)
  await chmod(nth, 0o755)
  const text = await readFile(join(ROOT, 'docs/transfer.md'), 'utf8')
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)
  expect(blocks).toHaveLength(3)
  const [, quoted] = /`(concat\(.+?\) as name)`/.exec(text) ?? []
  const client = `${mysql} ${clientArguments(foreign)} --batch --raw --default-character-set=utf8mb4`
  const commands = `${blocks.join('')}
${client} > booksales.tsv <<'SQL'
  select ${quoted}, copies as value from booksales
SQL
nth import booksales.tsv --namespace booksales
`
  const env = { PATH: `${directory}:${process.env.PATH}`, DATABASE_URL: urlOf(target) }
  const { stderr } = await promisify(execFile)('sh', ['-ec', commands], { cwd: directory, env })
  expect(stderr.split('\n').filter((line) => line.startsWith('Counters'))).toEqual([
    'Counters: 1 kept.',
    'Counters: 1 kept.',
    'Counters: 1 kept.',
    'Counters: 2 created.',
    'Counters: 3 created.',
  ])
  expect(await readFile(join(directory, 'nth.csv'), 'utf8')).toContain('counter,default,a,,,3')
  expect((await counters.read({ namespace: 'hits', name: 'home' })).value).toBe(1200)
  for (const [name, copies] of Object.entries({ Bulldozer: 12, 'Bücher, "neu"': 3, '=1\\2;': 4 }))
    expect([name, (await counters.read({ namespace: 'booksales', name })).value]).toEqual([name, copies])
})
