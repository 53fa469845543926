// Packs the client alone, which every server has at /client.tgz: `npm install` takes it from there, without the server.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('../dist/client', import.meta.url)))
const { name, version, license, type, exports, peerDependencies, peerDependenciesMeta } = JSON.parse(
  readFileSync('../../package.json', 'utf8'),
)
const description = 'The client of Nth, which gives every caller its own number.'
const modules = JSON.stringify(exports).replaceAll('./dist/client/', './')
const files = ['client', 'react'].flatMap((module) => [`${module}.js`, `${module}.d.ts`])
rmSync('package', { recursive: true, force: true })
mkdirSync('package')
for (const file of files) copyFileSync(file, `package/${file}`)
writeFileSync(
  'package/package.json',
  JSON.stringify({
    name,
    version,
    description,
    license,
    type,
    exports: JSON.parse(modules),
    peerDependencies,
    peerDependenciesMeta,
  }),
)
const { status, stdout, stderr } = spawnSync('npm', ['pack', '--silent', '--pack-destination', '..'], {
  cwd: 'package',
  encoding: 'utf8',
})
if (status !== 0) throw new Error(stderr)
renameSync(stdout.trim(), 'client.tgz')
rmSync('package', { recursive: true })
