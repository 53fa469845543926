import { withDatabase } from './database.ts'
import { parseImportCommand, USAGE } from './importArguments.ts'
import { importAll } from './transfer/importAll.ts'
import { openFile, openForeign } from './transfer/source.ts'

/** `nth import`. */
export async function run(args: string[]): Promise<void> {
  const command = parseImportCommand(args)
  if (command.name === 'help') return void process.stdout.write(USAGE)
  await withDatabase(async (target) => {
    const { isDryRun, overwrite, namespace } = command
    const source =
      'file' in command
        ? await openFile(command.file, namespace)
        : openForeign(command.from, command.select, namespace)
    const refusals = await importAll(target, source, { isDryRun, overwrite })
    if (refusals > 0) process.exitCode = 1
  })
}
