import { readdir, readFile } from 'node:fs/promises'

/** A file of the repository that the server serves as text. */
interface Doc {
  /** Its path in the repository and on the server: `/docs/periods.md`. */
  path: string
  /** Its first heading. */
  title: string
  text: string
}

const ROOT = new URL('../../../', import.meta.url)

/** Files beside `docs` that the docs link to. */
const BESIDE = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md']

/** Reads the docs, and what they link to, once: the path of a request never reaches the file system. */
export async function readDocs(): Promise<Doc[]> {
  const names = (await readdir(new URL('docs/', ROOT))).filter((name) => name.endsWith('.md'))
  const paths = [...BESIDE, ...names.toSorted().map((name) => `docs/${name}`)]
  return Promise.all(
    paths.map(async (path) => {
      const text = await readFile(new URL(path, ROOT), 'utf8')
      return { path: `/${path}`, title: /^# (.+)$/m.exec(text)?.[1] ?? path, text }
    }),
  )
}

/** Links to docs, as HTML. */
export function linksTo(docs: readonly Doc[]): string {
  return docs.map(({ path, title }) => `<a href="${escaped(path)}">${escaped(title)}</a>`).join('\n')
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}
