import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { findChromium } from './test/support/chromium.mjs'
import { hasFirstRelease } from './test/support/firstRelease.ts'
import { PATIENCE_MS } from './test/support/soon.ts'

const chromium = findChromium()

/** Whether Galera is there, or can be fetched. */
const hasGalera = ['/usr/lib/galera/libgalera_smm.so', '/usr/bin/apt-get'].some((path) => existsSync(path))

const isUpgradable = hasFirstRelease()

if (!isUpgradable && process.env.CI) {
  throw new Error('CI needs the history of this repository for the test of upgrades: git fetch --unshallow')
}
if (!chromium && process.env.CI) throw new Error('CI needs Chromium for the browser tests')

/** The seed of all random tests: SEED of the environment, to repeat a run, or another one each time. */
const seed = Number(process.env.SEED || randomInt(2 ** 31))
if (!Number.isInteger(seed)) throw new Error(`SEED=${process.env.SEED} is not an integer`)

const SLOW = /\/(browser|faults|processes)\//

/** Starts with the folders whose files take longest, so that no long file remains alone at the end. */
class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => Number(SLOW.test(b.moduleId)) - Number(SLOW.test(a.moduleId)))
  }
}

// Its mode is `fast` in `npm run test:fast` and `long` in `npm run test:long`.
export default defineConfig(({ mode }) => ({
  // Vite would take graphql's ES modules where Node, for the libraries, takes its CommonJS: two copies of one thing.
  resolve: { alias: [{ find: /^graphql$/, replacement: 'graphql/index.js' }] },
  test: {
    include: ['test/**/*.test.ts'],
    // Without a browser the rest runs; `npm test` says so before it starts.
    exclude: [
      ...(chromium ? [] : ['test/browser/**']),
      ...(isUpgradable ? [] : ['test/processes/upgrade.test.ts']),
      ...(hasGalera ? [] : ['test/processes/cluster.test.ts']),
      ...(mode === 'fast' ? ['test/browser/**', 'test/processes/**', 'test/faults/**'] : []),
    ],
    globalSetup: ['test/support/globalSetup.ts'],
    setupFiles: ['test/support/setup.ts'],
    provide: { seed, runLength: mode === 'fast' || mode === 'long' ? mode : 'normal' },
    sequence: { sequencer: SlowFirst },
    // Files run side by side, on databases of their own; each often waits, so three of them keep two cores busy.
    maxWorkers: 3,
    // Files that run after one another in a worker import the same modules once, which takes a second of a core.
    isolate: false,
    // No test has a limit of its own. These end what hangs, also on a slow machine that has much else to do.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    expect: { poll: { timeout: PATIENCE_MS } },
  },
}))
