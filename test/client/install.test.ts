import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { temporaryDirectory } from '../support/server/nthProcess.ts'
import { startService } from '../support/server/service.ts'

const run = promisify(execFile)
const PAGE = join(import.meta.dirname, '../../docs/clients.md')
const TSC = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc')
const CONFIG = { module: 'nodenext', target: 'es2022', lib: ['es2022', 'dom'], types: [], strict: true }

/** The code of the page about clients, pointed at a server: what it begins with, or the file with a name. */
async function blocksOf(url: string): Promise<(start: string) => string> {
  const page = (await readFile(PAGE, 'utf8')).replaceAll('http://127.0.0.1:4000', url)
  const blocks = [...page.matchAll(/```\w+\n([\s\S]*?)\n```/g)].map(([, code = '']) => code)
  return (start) => {
    const found = blocks.find((code) => code.startsWith(start))
    if (found === undefined) throw new Error(`No code begins with ${start}`)
    return found
  }
}

it('client.tgz: is installed in an empty folder as the page says, and the page’s own code counts', async () => {
  const { url, ask } = await startService()
  const block = await blocksOf(url)
  const cwd = await temporaryDirectory()
  await run('bash', ['-euc', block('npm install')], { cwd })
  for (const name of ['nth.ts', 'buy.ts', 'live.ts']) await writeFile(join(cwd, name), block(`// ${name}`))
  await writeFile(
    join(cwd, 'main.ts'),
    "import { buy } from './buy.ts'\nimport { watch } from './live.ts'\nconsole.log(await buy('Bulldozer'))\nwatch(['Bulldozer'], (sold) => console.log(sold.counters[0].value)).stop()\n",
  )
  const compilerOptions = { ...CONFIG, rewriteRelativeImportExtensions: true, outDir: '.' }
  await writeFile(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['main.ts'] }))
  const installed = JSON.parse(await readFile(join(cwd, 'package.json'), 'utf8'))
  expect(installed.dependencies).toEqual({ 'nth-counters': `${url}/client.tgz` })
  await writeFile(join(cwd, 'package.json'), JSON.stringify({ ...installed, type: 'module' }))
  await run(process.execPath, [TSC, '--project', cwd], { cwd }).catch(({ stdout }) => {
    throw new Error(stdout)
  })
  const { stdout } = await run(process.execPath, ['main.js'], { cwd })
  expect(stdout).toBe('You are buyer 1, number 1 this month.\n')
  const { counter } = await ask('{ counter(name: "Bulldozer", namespace: "booksales") { value } }')
  expect(counter).toEqual({ value: 1 })
  // The two files do without an installation.
  const alone = `import { createClient } from './client.js'
    const client = createClient({ url: '${url}/graphql' })
    console.log((await client.query('{ counter(name: "Bulldozer", namespace: "booksales") { value } }')).counter.value)`
  await writeFile(join(cwd, 'alone.js'), alone)
  expect((await run(process.execPath, ['alone.js'], { cwd })).stdout).toBe('1\n')
  expect(await readFile(join(cwd, 'client.d.ts'), 'utf8')).toContain('export declare function createClient')
})
