// Bundles GraphiQL into dist/graphiql, compressed, unless that is there already and nothing has changed. It takes some
// seconds, and hardly ever changes.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const SOURCE = fileURLToPath(new URL('../src/http/pages/graphiql/', import.meta.url))
const TARGET = fileURLToPath(new URL('../dist/graphiql/', import.meta.url))
const STAMP = `${TARGET}stamp`

/** Parts of the editor that need more than GraphQL and JSON have, or a place that GraphiQL doesn't have. */
const UNUSED = new RegExp(
  `/(${[
    'anchorSelect|codeAction|codelens|colorPicker|diffEditor|diffEditorBreadcrumbs|dnd|documentSymbols|dropOrPasteInto',
    'iPadShowKeyboard|inPlaceReplace|inlayHints|inlineCompletions|inlineEdits?|inlineProgress|inspectTokens',
    'linkedEditing|links|parameterHints|referenceSearch|rename|sectionHeaders|semanticTokens|stickyScroll',
    'toggleHighContrast|unicodeHighlighter|unusualLineTerminators|wordHighlighter',
  ].join('|')})/|suggestInlineCompletions|standaloneGotoSymbol`,
)

const EMPTY = '\0empty'
const EMPTY_CODE = 'export const DiffEditorWidget = Object, MultiDiffEditorWidget = Object'

/** Leaves out 120 kB of what the page would load. */
const trimming = {
  name: 'trimming',
  enforce: 'pre',
  resolveId(id, importer = '') {
    if (id === 'framer-motion') return `${SOURCE}reorder.js`
    if (/\/editor\/(editor\.all|edcore\.main)\.js$/.test(importer) && UNUSED.test(id)) return EMPTY
    if (/\/standalone\/.*\.js$/.test(importer) && /iffEditorWidget\.js$/.test(id)) return EMPTY
  },
  load: (id) => (id === EMPTY ? { code: EMPTY_CODE, moduleType: 'js' } : undefined),
}

const inputs = [
  fileURLToPath(import.meta.url),
  fileURLToPath(new URL('../package-lock.json', import.meta.url)),
  `${SOURCE}../frame.css`,
  ...readdirSync(SOURCE).map((name) => SOURCE + name),
]
const hash = createHash('sha1')
for (const path of inputs) hash.update(readFileSync(path))
const stamp = hash.digest('hex')

if (!existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== stamp) {
  const { build } = await import('vite')
  await build({
    configFile: false,
    root: SOURCE,
    base: '/graphiql/',
    logLevel: 'error',
    plugins: [trimming],
    worker: { format: 'es' },
    build: {
      outDir: TARGET,
      emptyOutDir: true,
      assetsDir: '',
      assetsInlineLimit: 0,
      modulePreload: false,
      reportCompressedSize: false,
      license: { fileName: 'licenses.md' },
    },
  })
  const names = (await readdir(TARGET)).filter((name) => !/\.(html|md)$/.test(name))
  await Promise.all(names.map(compress))
  writeFileSync(STAMP, stamp)
}

/** Replaces a file by its two compressed forms. */
async function compress(name) {
  const content = await readFile(TARGET + name)
  // It takes twice as long as with quality 10, and saves 13 kB of what the page loads first.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length }
  const [brotli, gzipped] = await Promise.all([
    promisify(brotliCompress)(content, { params }),
    promisify(gzip)(content, { level: 9 }),
  ])
  await Promise.all([
    writeFile(`${TARGET}${name}.br`, brotli),
    writeFile(`${TARGET}${name}.gz`, gzipped),
    rm(TARGET + name),
  ])
}
