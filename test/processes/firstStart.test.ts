import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { privateServer } from '../support/database/privateServer.ts'
import { temporaryDirectory } from '../support/server/nthProcess.ts'

it('first start: says that it compiles before it does', async () => {
  const { scripts } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8'))
  const folder = await temporaryDirectory()
  for (const compiler of ['npm', 'tsc']) {
    await writeFile(join(folder, compiler), '#!/bin/sh\necho "(it compiles)"\n', { mode: 0o700 })
  }
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', scripts.prestart], { env: { PATH: folder } })
  expect(stdout).toMatch(/^Compiling Nth\. .*\n\(it compiles\)\n$/)
})

it('first start: says that it makes a database before it does, and only where there is none', async () => {
  const directory = await temporaryDirectory()
  const said: { line: string; files: string[] }[] = []
  const say = (line: string) => said.push({ line, files: readdirSync(directory) })
  const first = await privateServer(directory, say)
  await first.close()
  await privateServer(directory, say)
  expect(said).toEqual([
    { line: expect.stringMatching(/^Creating a new database in .* This takes a few seconds/), files: [] },
  ])
})
