// Has relay-compiler write anew what it makes of relayOperations.mjs. It is fetched when it is needed, which is seldom,
// rather than installed: it takes 120 MB, with programs for five systems.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RELAY_OPERATIONS } from './relayOperations.mjs'

const ROOT = join(import.meta.dirname, '../../..')
const config = JSON.parse(readFileSync(join(ROOT, 'examples/relay/relay.config.json'), 'utf8'))
const folder = mkdtempSync(join(tmpdir(), 'nth-relay-'))
try {
  mkdirSync(join(folder, 'src'))
  const settings = { ...config, src: 'src', schema: 'schema.graphql' }
  writeFileSync(join(folder, 'relay.config.json'), JSON.stringify(settings))
  // The names of operations begin with that of their file.
  writeFileSync(join(folder, 'src/relay.ts'), RELAY_OPERATIONS)
  cpSync(join(ROOT, 'schema/schema.graphql'), join(folder, 'schema.graphql'))
  execFileSync('npx', ['--yes', 'relay-compiler@21'], { cwd: folder, stdio: 'inherit' })
  cpSync(join(folder, 'src/__generated__'), join(import.meta.dirname, '__generated__'), { recursive: true })
} finally {
  rmSync(folder, { recursive: true })
}
