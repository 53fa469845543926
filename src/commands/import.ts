import { readDatabaseConfig } from '../process/config.ts'
import { withDatabase } from './database.ts'
import { parseImportCommand, USAGE } from './importArguments.ts'
import { checkAll, importAll } from './transfer/importAll.ts'
import { openFile, openForeign } from './transfer/source.ts'

/** `nth import`. */
export async function run(args: string[]): Promise<void> {
  const command = parseImportCommand(args)
  if (command.name === 'help') return void process.stdout.write(USAGE)
  // What is wrong with it is reported before a long file is checked.
  readDatabaseConfig()
  const { isDryRun, overwrite, namespace } = command
  const source =
    'file' in command
      ? await openFile(command.file, namespace)
      : await openForeign(command.from, command.select, namespace)
  try {
    await checkAll(source, false)
    await withDatabase(async (target) => {
      const advice = 'Repeat the command to go on.'
      const refusals = await importAll(target, source, { isDryRun, overwrite, advice })
      if (refusals > 0) process.exitCode = 1
    })
  } finally {
    await source.close()
  }
}
