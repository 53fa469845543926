import { execFileSync } from 'node:child_process'

/**
 * The release whose servers must work beside those of this checkout, and start again after them. A contraction moves
 * it: to the version that its file needs. It is compiled with this checkout's packages, so those that only it needs are
 * among the development ones: `@pothos/plugin-validation`, `@graphql-yoga/plugin-apq` and `uplot`.
 */
export const FIRST_RELEASE = {
  commit: '7e1c3a06b3d4fc44a517633a9f688bd08ee2b151',
  migrations: ['0001_tables.sql', '0002_running_periods.sql', '0003_one_trip.sql', '0004_api_keys.sql'],
}

/** Git refuses the repository of another user, which this checkout may be. */
export const GIT = ['-c', 'safe.directory=*']

/** Whether the history has it: a shallow clone, or a copy without a repository, doesn't. */
export function hasFirstRelease(): boolean {
  try {
    const args = [...GIT, 'cat-file', '-e', `${FIRST_RELEASE.commit}^{commit}`]
    execFileSync('git', args, { cwd: import.meta.dirname, stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
