// Before `npm pack`: lets the package start `dist/bundle`. With `--undo`, after it: restores what it has changed.
//
// What the package depends on is inside it, in the versions that were tested: the `overrides` of this repository would
// not apply to whoever installs it, and an installation needs no network. Bundled, they are thirty files
// instead of six thousand.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** Files that are different in the package. The originals are kept under another name meanwhile. */
const CHANGED = ['package.json', 'bin/nth.js']

process.chdir(ROOT)
undo()
if (!process.argv.includes('--undo')) prepare()

function undo() {
  for (const name of CHANGED) if (existsSync(`${name}.kept`)) renameSync(`${name}.kept`, name)
}

function prepare() {
  change('bin/nth.js', (text) => text.replace('../dist/main.js', '../dist/bundle/main.js'))
  change('package.json', (text) => {
    const { dependencies, devDependencies, overrides, scripts, ...rest } = JSON.parse(text)
    return `${JSON.stringify({ ...rest, scripts: { postpack: scripts.postpack } }, null, 2)}\n`
  })
}

function change(name, edit) {
  const text = readFileSync(name, 'utf8')
  const edited = edit(text)
  if (edited === text) throw new Error(`${name} is not as expected`)
  renameSync(name, `${name}.kept`)
  writeFileSync(name, edited, { mode: 0o755 })
}
