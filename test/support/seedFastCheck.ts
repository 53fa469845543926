import fc from 'fast-check'
import { inject } from 'vitest'

// A failure of fast-check names the seed, too.
fc.configureGlobal({ seed: inject('seed') })
