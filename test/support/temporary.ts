import { mkdtemp, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Space for the data of several database servers, in bytes. */
const ENOUGH = 4 * 2 ** 30

/**
 * Makes a directory for the data of database servers: in memory where the machine has enough of it, as tests commit
 * thousands of times and a disk takes a millisecond for each.
 */
export async function makeTemporaryDirectory(): Promise<string> {
  return mkdtemp(join(await temporaryRoot(), 'nth-test-'))
}

async function temporaryRoot(): Promise<string> {
  try {
    const { bavail, bsize } = await statfs('/dev/shm')
    return bavail * bsize >= ENOUGH ? '/dev/shm' : tmpdir()
  } catch {
    // Not on this system.
    return tmpdir()
  }
}
