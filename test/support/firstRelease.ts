import { execFile, execFileSync } from 'node:child_process'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryDirectory } from './nthProcess.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')

/**
 * The release whose servers must work beside those of this checkout, and start again after them. A contraction moves
 * it: to the version that its file needs.
 */
export const FIRST_RELEASE = {
  version: '0.2.0',
  commit: '7e1c3a06b3d4fc44a517633a9f688bd08ee2b151',
  migrations: ['0001_tables.sql', '0002_running_periods.sql', '0003_one_trip.sql', '0004_api_keys.sql'],
}

/** Whether the history has it: a shallow clone, or a copy without a repository, doesn't. */
export function hasFirstRelease(): boolean {
  try {
    execFileSync('git', ['cat-file', '-e', `${FIRST_RELEASE.commit}^{commit}`], { cwd: ROOT, stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Compiles it in a directory of its own, with the packages of this checkout. Returns the directory. */
export async function compileFirstRelease(): Promise<string> {
  const directory = await temporaryDirectory()
  const archive = join(directory, 'release.tar')
  await run('git', ['archive', '--output', archive, FIRST_RELEASE.commit], { cwd: ROOT })
  await run('tar', ['-xf', archive, '-C', directory])
  await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  await run(join(ROOT, 'node_modules/.bin/tsc'), ['--project', 'tsconfig.build.json'], { cwd: directory })
  return directory
}
