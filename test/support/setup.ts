// Runs before each test file.
import fc from 'fast-check'
import { afterAll, inject } from 'vitest'
import { closeShared } from './openOnce.ts'

// A failure of fast-check names the seed, too.
fc.configureGlobal({ seed: inject('seed') })

afterAll(closeShared)
