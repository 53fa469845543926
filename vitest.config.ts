import { createHash, randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { findChromium } from './test/support/browser/chromium.mjs'
import { hasFirstRelease } from './test/support/server/firstRelease.ts'
import { PATIENCE_MS } from './test/support/soon.ts'

const chromium = findChromium()

/** Whether Galera is there, or can be fetched. */
const hasGalera = ['/usr/lib/galera/libgalera_smm.so', '/usr/bin/apt-get'].some((path) => existsSync(path))

const isUpgradable = hasFirstRelease()

/** The seed of all random tests: SEED of the environment, to repeat a run, or another one each time. */
const seed = Number(process.env.SEED || randomInt(2 ** 31))
if (!Number.isInteger(seed)) throw new Error(`SEED=${process.env.SEED} is not an integer`)

const SLOW = /\/(browser|faults|processes)\//

/** A number for a file that differs with the seed. */
const placeOf = ({ moduleId }: TestSpecification) =>
  createHash('sha1').update(`${seed} ${moduleId}`).digest().readUInt32BE()

/**
 * Starts with the folders whose files take longest, so that no long file remains alone at the end. In CI, files run in
 * an order by the seed: modules are shared, and no file may need what another one has left.
 */
class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = process.env.CI
      ? files.toSorted((a, b) => placeOf(a) - placeOf(b))
      : await super.sort(files)
    return sorted.toSorted((a, b) => Number(SLOW.test(b.moduleId)) - Number(SLOW.test(a.moduleId)))
  }
}

/** How many times as long as usual the long random tests run: RUNS of the environment. */
const runs = Number(process.env.RUNS || 1)
if (!Number.isInteger(runs) || runs < 1) throw new Error(`RUNS=${process.env.RUNS} is not a positive integer`)

/** The limit of tests that do much: what they wait for has its own. */
const LONG_TEST_MS = 900_000

// Its mode is `check` in `npm run check`, and `long` in the parts after that of `npm run test:all`.
export default defineConfig(({ mode }) => {
  // This test reads source files only: it needs neither a database nor a browser.
  if (mode === 'check') return { test: { include: ['test/layout.test.ts'] } }
  if (!isUpgradable && process.env.CI) {
    throw new Error('CI needs the history of this repository for the test of upgrades: git fetch --unshallow')
  }
  if (!chromium && process.env.CI) throw new Error('CI needs Chromium for the browser tests')
  return {
    // Vite would take graphql's ES modules where Node, for the libraries, takes its CommonJS: two copies of one thing.
    resolve: { alias: [{ find: /^graphql$/, replacement: 'graphql/index.js' }] },
    test: {
      include: ['test/**/*.test.ts'],
      // Without a browser the rest runs; `npm test` says so before it starts.
      exclude: [
        ...(chromium ? [] : ['test/browser/**']),
        ...(isUpgradable ? [] : ['test/processes/upgrade.test.ts', 'test/schemaChanges.test.ts']),
        ...(hasGalera ? [] : ['test/processes/cluster.test.ts']),
      ],
      globalSetup: ['test/support/globalSetup.ts'],
      setupFiles: ['test/support/setup.ts'],
      provide: { seed, longRuns: mode === 'long' ? runs : 0 },
      tags: [
        {
          name: 'slow',
          timeout: LONG_TEST_MS,
          description: 'Left out of `npm test`: a whole file, or a single test.',
        },
        {
          name: 'alone',
          timeout: LONG_TEST_MS,
          description: 'Measures the processor: runs after all others in `npm run test:all`.',
        },
        { name: 'quick', description: 'Part of `npm test`, though the other tests of its file are slow.' },
        {
          name: 'random',
          timeout: LONG_TEST_MS,
          description: 'Runs for short in `npm test`, and again for long in `npm run test:all`.',
        },
      ],
      sequence: { sequencer: SlowFirst },
      // Files run side by side, on databases of their own; each often waits, so five of them keep two cores busy.
      maxWorkers: 5,
      // Files that run after one another in a worker import the same modules once, which takes a second of a core.
      isolate: false,
      // These end what hangs without waiting for anything, also on a slow machine that has much else to do.
      testTimeout: 120_000,
      hookTimeout: LONG_TEST_MS,
      expect: { poll: { timeout: PATIENCE_MS } },
    },
  }
})
