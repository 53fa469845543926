import { readdir, readFile } from 'node:fs/promises'

/** A file of `schema/migrations`. */
export type Migration = {
  name: string
  /** Each of its statements ends with a semicolon at the end of a line. */
  text: string
} & Effect

/**
 * What a migration means for servers of older versions. They work beside an expansion, and can start on it. A
 * contraction breaks those before the version that it names; the files of the first release name none.
 */
export type Effect = { kind: 'expansion' } | { kind: 'contraction'; oldest: string | undefined }

/** The files of a folder, in the order in which they are applied. */
export async function readMigrations(folder: URL): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, folder), 'utf8')
      return { name, text, ...effectOf(text) }
    }),
  )
}

/** The effect that a file states in its first line. Without a statement it is a contraction, which is the safe one. */
function effectOf(text: string): Effect {
  const [firstLine = ''] = text.split('\n', 1)
  if (firstLine === '-- expands') return { kind: 'expansion' }
  return { kind: 'contraction', oldest: /^-- contracts, needs (\d+\.\d+\.\d+)$/.exec(firstLine)?.[1] }
}
