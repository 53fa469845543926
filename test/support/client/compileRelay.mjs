// Has relay-compiler write anew what it makes of docs/clients.md. It is fetched when it is needed, which is seldom,
// rather than installed: it takes 120 MB, with programs for five systems.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../../..')
const page = readFileSync(join(ROOT, 'docs/clients.md'), 'utf8')
const [, config = ''] = /relay\.config\.json`:\n\n```json\n([\s\S]*?)```/.exec(page) ?? []
const [, code = ''] = /```ts\n\/\/ relay\.ts\n([\s\S]*?)```/.exec(page) ?? []
const folder = mkdtempSync(join(tmpdir(), 'nth-relay-'))
try {
  mkdirSync(join(folder, 'src'))
  writeFileSync(join(folder, 'relay.config.json'), config)
  writeFileSync(join(folder, 'src/relay.ts'), code)
  cpSync(join(ROOT, 'schema/schema.graphql'), join(folder, 'schema.graphql'))
  execFileSync('npx', ['--yes', 'relay-compiler@21'], { cwd: folder, stdio: 'inherit' })
  cpSync(join(folder, 'src/__generated__'), join(import.meta.dirname, '__generated__'), { recursive: true })
} finally {
  rmSync(folder, { recursive: true })
}
