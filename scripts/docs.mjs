// Makes the pages that Nth serves below /docs/, and their search, from the documentation's Markdown: a part of
// `npm run build`.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { lexer, parse, Renderer } from 'marked'
import { build } from 'rolldown'

const ROOT = new URL('../', import.meta.url)
const TARGET = new URL('dist/docs/', ROOT)

/** The page that lists all others, in groups and in their order. */
const INDEX = 'docs/README.md'

/** The page that lists those of its folder, which stand below it. */
const REFERENCE = 'docs/reference/README.md'

const index = await readFile(new URL(INDEX, ROOT), 'utf8')
const groups = groupsOf(index, INDEX)
const pages = groups.flatMap(({ pages }) => pages)
const reference = pages.find(({ file }) => file === REFERENCE)
const below = groupsOf(await readFile(new URL(REFERENCE, ROOT), 'utf8'), REFERENCE).flatMap(
  ({ pages }) => pages,
)
const first = { file: INDEX, title: 'Documentation', address: '/docs/' }
/** The pages that follow one another. */
const orders = [
  [first, ...pages],
  [reference, ...below],
]
const files = [first, ...pages, ...below]
const addresses = new Map(files.map(({ file, address }) => [file, address]))

/** The groups of an index, each with the pages that it lists. */
function groupsOf(text, index) {
  const groups = []
  for (const token of lexer(text)) {
    if (token.type === 'heading' && token.depth === 2) groups.push({ title: token.text, pages: [] })
    const links = token.type === 'list' ? token.items.map(({ tokens }) => tokens[0].tokens[0]) : []
    for (const { href, text: title } of links) {
      const file = posix.join(posix.dirname(index), href)
      // Files beside `docs` are served below /docs/, too.
      const name = file.replace(/^docs\//, '').replace(/(\/README)?\.md$/, '')
      groups.at(-1).pages.push({ file, title, address: `/docs/${name.toLowerCase()}` })
    }
  }
  return groups
}

/** Where a link of a file leads on the server; undefined if Nth doesn't serve the target. */
function targetOf(href, file) {
  if (/^[a-z]+:|^#/.test(href)) return href
  const [path, fragment] = href.split('#')
  const target = posix.join(posix.dirname(file), path)
  if (/^docs\/[^/]+\.webp$/.test(target)) return `/${target}`
  const address = addresses.get(target)
  return address && fragment ? `${address}#${fragment}` : address
}

/** Characters of a table's cell, above which it is a sentence. */
const SENTENCE = 50

/** Renders one file, and collects its sections. */
class PageRenderer extends Renderer {
  sections = []
  #file
  #ids = new Map()

  constructor(file) {
    super()
    this.#file = file
  }

  heading({ tokens, depth, text }) {
    const html = this.parser.parseInline(tokens)
    const id = this.#idOf(text)
    if (depth === 2) this.sections.push({ id, html })
    return `<h${depth} id="${id}"><a href="#${id}">${html}</a></h${depth}>\n`
  }

  link({ href, tokens }) {
    const html = this.parser.parseInline(tokens)
    const target = targetOf(href, this.#file)
    if (target) return `<a href="${escaped(target)}">${html}</a>`
    const path = posix.join(posix.dirname(this.#file), href)
    return `<span title="${escaped(path)} in the repository">${html}</span>`
  }

  image({ href, text }) {
    return `<img src="${escaped(targetOf(href, this.#file))}" alt="${escaped(text)}">`
  }

  // What is wide scrolls by itself, also by keyboard, so that the page doesn't.
  code({ text }) {
    const copy = `<p class="copy hint"><span role="status"></span> <button class="link">Copy</button></p>`
    return `<div class="block"><pre tabindex="0"><code>${escaped(text)}</code></pre>${copy}</div>\n`
  }

  table(token) {
    return `<div class="wide" tabindex="0">${super.table(token)}</div>\n`
  }

  // A column of sentences scrolls rather than shrinks to a word a line.
  tablecell(token) {
    const cell = super.tablecell(token)
    return token.text.length > SENTENCE ? cell.replace('<td', '<td class="long"') : cell
  }

  /** The id of a heading, as GitHub makes it. */
  #idOf(heading) {
    const name = heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '')
    const id = name.replaceAll(' ', '-')
    const uses = this.#ids.get(id) ?? 0
    this.#ids.set(id, uses + 1)
    return uses === 0 ? id : `${id}-${uses}`
  }
}

/** The box of the search, and the panel with what `docs.js` finds. */
const SEARCH = `<div class="search" role="search">
<input type="search" id="query" placeholder="Search" aria-label="Search the documentation" aria-keyshortcuts="/" autocomplete="off" spellcheck="false">
<div class="card" id="found" tabindex="-1" hidden><p class="hint" role="status"></p><ol class="list"></ol></div>
</div>`

/** The head and the main part of a page, which the server frames like all others. */
function pageOf({ file, title }, html, sections) {
  const pages = orders.find((pages) => pages.some((page) => page.file === file))
  const position = pages.findIndex((page) => page.file === file)
  return `<title>${escaped(title)} · Nth</title>
<link rel="stylesheet" href="/docs.css">
<script type="module" src="/docs.js"></script>
<main class="docs" id="main">
${SEARCH}
${file === INDEX ? '' : '<div class="to-pages"><a href="#pages">All pages, and the sections of this one</a></div>'}
<article>
${html}
<nav class="line ends" aria-label="Neighbours">
${neighbour('prev', 'Previous', pages[position - 1])}
${neighbour('next', 'Next', pages[position + 1])}
</nav>
<p class="hint"><a href="/${file}">This page as Markdown</a></p>
</article>
${navigation(file, sections)}
</main>
`
}

/** What the search finds: each heading of a page, with the plain text below it. */
function foundIn(html, { title, address }) {
  return html.split(/(?=<h[1-6] )/).map((part) => {
    const [, id, heading, text] = /^<h. id="(.*?)">(.*?)<\/h.>(.*)/s.exec(part)
    return { address: `${address}#${id}`, page: title, heading: plain(heading), text: plain(text) }
  })
}

/** The text of HTML, without the buttons that copy. */
function plain(html) {
  const text = html
    .replace(/<p class="copy.*?<\/p>/g, '')
    .replace(/<\/?(a|code|del|em|span|strong)\b[^>]*>/g, '')
    .replace(/<[^>]*>/g, ' ')
  const characters = { quot: '"', amp: '&', lt: '<', gt: '>' }
  return text
    .replace(/&(?:#(\d+)|(\w+));/g, (_, code, name) => characters[name] ?? String.fromCodePoint(code))
    .replace(/\s+/g, ' ')
    .trim()
}

/** A page of the reference is found as one, by what it does and its arguments: the rest is that of other pages, too. */
function foundAsOne(html, { title, address }) {
  const [text] = html.replace(/<h1.*?<\/h1>/, '').split('<h2 id="result"')
  return { address, page: title, heading: title, text: plain(text) }
}

const CURRENT = ' aria-current="page"'

/** Links to all pages, and to the sections of this one. */
function navigation(file, sections) {
  const lists = groups.map((group) => groupHtml(group, file, sections))
  return `<nav id="pages" class="links" aria-label="Documentation">\n${lists.join('\n')}\n</nav>`
}

function groupHtml({ title, pages }, file, sections) {
  const links = sections.map(({ id, html }) => `<li><a href="#${id}">${html}</a></li>`)
  const inside = links.length > 0 ? `\n<ul>\n${links.join('\n')}\n</ul>` : ''
  const items = pages.map((page) => {
    const child = page === reference && below.find((child) => child.file === file)
    if (child) return `<li>${linkTo(page)}\n<ul>\n<li>${linkTo(child, CURRENT)}${inside}</li>\n</ul></li>`
    const isHere = page.file === file
    return `<li>${linkTo(page, isHere ? CURRENT : '')}${isHere ? inside : ''}</li>`
  })
  return `<h2>${escaped(title)}</h2>\n<ul>\n${items.join('\n')}\n</ul>`
}

function linkTo({ address, title }, attributes = '') {
  return `<a href="${address}"${attributes}>${escaped(title)}</a>`
}

function neighbour(rel, label, page) {
  if (!page) return '<span></span>'
  return `<a class="card" rel="${rel}" href="${page.address}"><span class="hint">${label}</span><br>${escaped(page.title)}</a>`
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

await rm(TARGET, { recursive: true, force: true })
await mkdir(new URL('reference/', TARGET), { recursive: true })
const found = await Promise.all(
  files.map(async (page) => {
    const { file, address } = page
    const text = file === INDEX ? index : await readFile(new URL(file, ROOT), 'utf8')
    const renderer = new PageRenderer(file)
    const html = parse(text, { renderer })
    const name = posix.relative('/docs', address) || 'index'
    await writeFile(new URL(`${name}.html`, TARGET), pageOf(page, html, renderer.sections))
    // What the index says is said by the pages themselves.
    if (file === INDEX || file === REFERENCE) return []
    return below.includes(page) && !file.endsWith('/types.md') ? foundAsOne(html, page) : foundIn(html, page)
  }),
)

/** What `docsSearch.js` imports as `sections`. */
const sections = {
  name: 'sections',
  resolveId: (id) => (id === 'sections' ? id : undefined),
  load: (id) => (id === 'sections' ? `export default ${JSON.stringify(found.flat())}` : undefined),
}

const LICENSE = new URL('node_modules/minisearch/LICENSE.txt', ROOT)
await build({
  input: fileURLToPath(new URL('docsSearch.js', import.meta.url)),
  external: '/docs.js',
  plugins: [sections],
  output: {
    file: fileURLToPath(new URL('search.js', TARGET)),
    minify: true,
    postBanner: `/* MiniSearch:\n${await readFile(LICENSE, 'utf8')}*/`,
  },
})
