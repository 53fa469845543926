import { withDatabase } from './database.ts'
import { parseImportCommand, USAGE } from './importArguments.ts'
import { importAll } from './transfer/importAll.ts'
import { withNotice } from './transfer/interrupted.ts'
import { openFile, openForeign } from './transfer/source.ts'

const INTERRUPTED = 'Interrupted. What was imported stays; repeat the command to go on.'

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
    const options = { isDryRun, overwrite, takesKeys: false }
    const refusals = await withNotice(INTERRUPTED, () => importAll(target, source, options))
    if (refusals > 0) process.exitCode = 1
  })
}
