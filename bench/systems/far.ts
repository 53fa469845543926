// Four processes of Nth whose database is some milliseconds away.
import type { Target } from '../../src/mysql/settings.ts'
import { SERVES, startLine, startNth } from '../systems.ts'
import { announce, place } from './serve.ts'

/** Each way. */
const DELAY_MS = 5

const line = await startLine(place<Target>(), DELAY_MS)
const nth = startNth({ database: line.target }, { WORKERS: '4' })
process.once('SIGTERM', async () => {
  await nth.end()
  await line.end()
  process.exit()
})
announce(await nth.printed(SERVES))
