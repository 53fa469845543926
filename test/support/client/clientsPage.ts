import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { minifyIntrospection, outputIntrospectionFile } from 'gql.tada/internal'
import { buildSchema, introspectionFromSchema } from 'graphql'
import { temporaryDirectory } from '../server/nthProcess.ts'

const ROOT = join(import.meta.dirname, '../../..')
const URL_OF_PAGE = 'http://127.0.0.1:4000'

/** What relay-compiler made of the page (npm run relay). */
export const ARTIFACTS = join(import.meta.dirname, '__generated__')

/** Texts of files by their names. */
export type Files = Readonly<Record<string, string>>

/** The code that docs/clients.md shows: each block begins with the name of its file. */
export async function filesOfPage(): Promise<Files> {
  const page = await readFile(join(ROOT, 'docs/clients.md'), 'utf8')
  const blocks = page.matchAll(/```tsx?\n\/\/ (\w+\.tsx?)\n([\s\S]*?)\n```/g)
  return Object.fromEntries([...blocks].map(([, name, code]) => [name, code]))
}

/**
 * Checks the types of files and compiles them, with what gql.tada and Relay generate for them.
 *
 * @throws {Error} with the compiler's complaints
 */
export async function compile(files: Files): Promise<Files> {
  const folder = await mkdtemp(join(tmpdir(), 'nth-test-'))
  try {
    await writeFiles(join(folder, 'src'), {
      ...files,
      'graphql-env.d.ts': await introspectionTypes(),
      'package.json': PACKAGE,
    })
    await cp(ARTIFACTS, join(folder, 'src/__generated__'), { recursive: true })
    await writeFiles(folder, { 'tsconfig.json': JSON.stringify(TSCONFIG) })
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    await tsc(folder)
    return withArtifacts(await readFiles(join(folder, 'dist')))
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Makes compiled files, for a server at `url`, importable by their names, with a state of their own. */
export async function importable(files: Files, url: string): Promise<(name: string) => Promise<unknown>> {
  const folder = await temporaryDirectory()
  // The package is not among its own dependencies.
  const moved = Object.entries(files).map(([name, code]) => [
    name,
    code
      .replaceAll(URL_OF_PAGE, url)
      .replaceAll(/'(nth-counters\/\w+)'/g, (_, module) => JSON.stringify(import.meta.resolve(module))),
  ])
  await writeFiles(folder, { ...Object.fromEntries(moved), 'package.json': PACKAGE })
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return (name) => import(pathToFileURL(join(folder, name)).href)
}

const PACKAGE = '{ "type": "module" }'

/** Of a page in a browser. */
const TSCONFIG = {
  compilerOptions: {
    target: 'es2023',
    lib: ['es2023', 'dom', 'dom.iterable'],
    module: 'nodenext',
    jsx: 'react-jsx',
    types: [],
    strict: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    rewriteRelativeImportExtensions: true,
    rootDir: 'src',
    outDir: 'dist',
    paths: { 'nth-counters/*': [join(ROOT, 'dist/client/*.d.ts')] },
  },
  include: ['src'],
}

async function tsc(folder: string): Promise<void> {
  const args = [join(ROOT, 'node_modules/typescript/bin/tsc'), '--project', folder]
  try {
    await promisify(execFile)(process.execPath, args, { cwd: folder })
  } catch (error) {
    // It complains on its standard output.
    const { stdout = '' } = error as { stdout?: string }
    throw new Error(`The code of docs/clients.md has wrong types:\n${stdout}`, { cause: error })
  }
}

/** What `gql.tada generate output` writes, whose command line doesn't run on TypeScript 7. */
export async function introspectionTypes(): Promise<string> {
  const schema = buildSchema(await readFile(join(ROOT, 'schema/schema.graphql'), 'utf8'))
  const introspection = minifyIntrospection(introspectionFromSchema(schema))
  return outputIntrospectionFile(introspection, { fileType: '.d.ts', shouldPreprocess: true })
}

/** Puts Relay's artifacts in the place of its documents, as its plugins for bundlers do. */
function withArtifacts(files: Files): Files {
  const linked = Object.entries(files).map(([name, code]) => {
    const imports: string[] = []
    const body = code.replace(/graphql\s*`\s*(?:query|mutation) (\w+)[^`]*`/g, (_, document) => {
      imports.push(`import ${document} from './__generated__/${document}.graphql.js'\n`)
      return document
    })
    return [name, imports.join('') + body]
  })
  return Object.fromEntries(linked)
}

async function writeFiles(folder: string, files: Files): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, text)
  }
}

async function readFiles(folder: string): Promise<Files> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.js'))
  const texts = names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')])
  return Object.fromEntries(await Promise.all(texts))
}
