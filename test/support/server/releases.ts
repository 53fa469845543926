import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { FIRST_RELEASE, GIT } from './firstRelease.ts'
import { temporaryDirectory } from './nthProcess.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../../..')

const COPIED = ['dist', 'schema']

/** Compiles the first release, with the packages of this checkout, in a directory of its own. Returns the directory. */
export async function compileFirstRelease(): Promise<string> {
  const directory = await temporaryDirectory()
  const archive = join(directory, 'release.tar')
  await run('git', [...GIT, 'archive', '--output', archive, FIRST_RELEASE.commit], { cwd: ROOT })
  await run('tar', ['-xf', archive, '-C', directory])
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  const compiler = join(ROOT, 'node_modules/.bin/tsc')
  await run(compiler, ['--project', 'tsconfig.build.json'], { cwd: directory })
  // Where processes of this version have their program.
  await mkdir(join(directory, 'dist/bundle'))
  await writeFile(join(directory, 'dist/bundle/main.js'), "import '../main.js'\n")
  return directory
}

/** Copies this checkout, as it was built, and adds a migration. Returns the directory of the copy. */
export async function copyWithMigration(name: string, text: string): Promise<string> {
  const directory = await temporaryDirectory()
  for (const name of await readdir(ROOT)) {
    const [from, to] = [join(ROOT, name), join(directory, name)]
    // A link to the program would not do: it finds the migrations from where it really is.
    await (COPIED.includes(name) ? cp(from, to, { recursive: true }) : symlink(from, to))
  }
  await writeFile(join(directory, 'schema/migrations', name), text)
  return directory
}
