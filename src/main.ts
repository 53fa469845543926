// What `bin/nth.js` runs: one of the commands of `nth`, or one of its workers.
import cluster from 'node:cluster'
import { version } from './operations/process.ts'

/** A command. It ends the process, or leaves nothing that keeps it alive. */
interface Command {
  /** What it does, for `nth --help`. */
  summary: string
  /** Imported only when it is named, as that takes time. `run` throws an error whose message is for the operator. */
  load(): Promise<{ USAGE: string; run(args: string[]): Promise<void> }>
}

const commands: Record<string, Command> = {
  start: {
    summary: 'runs the service, with its private database unless DATABASE_URL is set',
    load: () => import('./commands/start.ts'),
  },
  check: {
    summary: 'says what is wrong with the configuration, the database or its settings',
    load: () => import('./commands/check.ts'),
  },
  migrate: {
    summary: 'applies the migrations that the database lacks',
    load: () => import('./commands/migrate.ts'),
  },
  keys: { summary: 'creates, lists and revokes API keys', load: () => import('./commands/keys.ts') },
  documents: {
    summary: 'adds, lists and removes trusted documents',
    load: () => import('./commands/documents.ts'),
  },
  export: {
    summary: 'writes all counters and sequences to a file',
    load: () => import('./commands/export.ts'),
  },
  import: {
    summary: 'reads counters and sequences from a file',
    load: () => import('./commands/import.ts'),
  },
  backup: {
    summary: 'backs everything up into a directory, also while Nth runs',
    load: () => import('./commands/backup.ts'),
  },
  restore: {
    summary: 'restores a backup, and moves numbers on',
    load: () => import('./commands/restore.ts'),
  },
}

function usage(): string {
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(9)} ${summary}\n`)
  return `Usage: nth <command> [options]
       nth --version

Nth ${version}: counters and sequences over GraphQL and MySQL.

${lines.join('')}
Each command has --help.
`
}

async function main([name, ...args]: string[]): Promise<void> {
  if (name === undefined || name === '--help' || name === '-h') return void process.stdout.write(usage())
  if (name === '--version' || name === '-v') return void process.stdout.write(`${version}\n`)
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (!command) throw new Error(`Unknown command "${name}"; see nth --help.`)
  const { USAGE, run } = await command.load()
  if (args.includes('--help') || args.includes('-h')) return void process.stdout.write(USAGE)
  await run(args)
}

let outputError: unknown

/** The service goes on when nobody reads what it prints, or its disk is full; a command has failed. */
function onOutputError(error: NodeJS.ErrnoException): void {
  // The reader has seen enough, such as `head`.
  if (error.code === 'EPIPE' || outputError !== undefined || process.argv[2] === 'start') return
  outputError = error
  process.exitCode = 1
  console.error(`The output could not be written: ${error.message}.`)
}

async function sayWhy(message: string): Promise<void> {
  if (process.argv[2] !== 'start') return console.error(message)
  const { logEnd } = await import('./operations/log.ts')
  logEnd(message)
}

process.stdout.on('error', onOutputError)
process.stderr.on('error', () => undefined)

try {
  if (cluster.isPrimary) await main(process.argv.slice(2))
  else await (await import('./commands/start.ts')).runAsWorker()
} catch (error) {
  if (error !== outputError) await sayWhy((error as Error).message)
  process.exitCode = 1
}
