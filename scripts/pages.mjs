// Bundles the script of each page in src/http/pages, with what it imports, into dist/pages: a part of `npm run build`. A
// browser then loads one file at once, instead of modules that name others, one round trip after another.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const pathOf = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const PAGES = pathOf('src/http/pages')
const TARGET = pathOf('dist/pages')

/** Finds modules by their addresses on the server. */
const addresses = {
  name: 'addresses',
  resolveId(id) {
    if (id === '/client.js') return pathOf('dist/client/client.js')
    return /^\/\w+\.js$/.test(id) ? `${PAGES}/scripts${id}` : undefined
  },
}

rmSync(TARGET, { recursive: true, force: true })
const pages = readdirSync(PAGES).filter((name) => name.endsWith('.html') && !/^(page|notFound)\./.test(name))
await build(
  pages.map((name) => {
    const page = basename(name, '.html')
    const script = page === 'console' ? 'console/console' : page
    return {
      input: `${PAGES}/scripts/${script}.js`,
      plugins: [addresses],
      logLevel: 'warn',
      output: { file: `${TARGET}/${page}.js`, minify: true },
    }
  }),
)

function licenseOf(name) {
  const fileOf = (file) => readFileSync(pathOf(`node_modules/${name}/${file}`), 'utf8')
  return `# ${name} ${JSON.parse(fileOf('package.json')).version}\n\n${fileOf('LICENSE')}`
}
writeFileSync(`${TARGET}/licenses.md`, ['preact', 'htm'].map(licenseOf).join('\n'))
