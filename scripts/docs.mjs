// Makes the pages that Nth serves below /docs/ from the documentation's Markdown: a part of `npm run build`.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { posix } from 'node:path'
import { lexer, parse, Renderer } from 'marked'

const ROOT = new URL('../', import.meta.url)
const TARGET = new URL('dist/docs/', ROOT)

/** The page that lists all others, in groups and in their order. */
const INDEX = 'docs/README.md'

const index = await readFile(new URL(INDEX, ROOT), 'utf8')
const groups = groupsOf(index)
const pages = groups.flatMap(({ pages }) => pages)
const addresses = new Map([[INDEX, '/docs/'], ...pages.map(({ file, address }) => [file, address])])
const files = [{ file: INDEX, title: 'Documentation', address: '/docs/' }, ...pages]

/** The groups of the index, each with the pages that it lists. */
function groupsOf(text) {
  const groups = []
  for (const token of lexer(text)) {
    if (token.type === 'heading' && token.depth === 2) groups.push({ title: token.text, pages: [] })
    const links = token.type === 'list' ? token.items.map(({ tokens }) => tokens[0].tokens[0]) : []
    for (const { href, text: title } of links) {
      const file = posix.join(posix.dirname(INDEX), href)
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
    if (depth === 1) return `<h1>${html}</h1>\n`
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
    return `<pre tabindex="0"><code>${escaped(text)}</code></pre>\n`
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

/** The head and the main part of a page, which the server frames like all others. */
function htmlOf({ file, title }, text) {
  const renderer = new PageRenderer(file)
  const html = parse(text, { renderer })
  const position = pages.findIndex((page) => page.file === file)
  return `<title>${escaped(title)} · Nth</title>
<link rel="stylesheet" href="/docs.css">
<main class="docs" id="main">
<article>
${file === INDEX ? '' : '<a class="to-pages" href="#pages">All pages, and the sections of this one</a>'}
${html}
<nav class="line ends" aria-label="Neighbours">
${neighbour('prev', pages[position - 1])}
${neighbour('next', pages[position + 1])}
</nav>
<p class="hint"><a href="/${file}">This page as Markdown</a></p>
</article>
${file === INDEX ? '' : navigation(file, renderer.sections)}
</main>
`
}

/** Links to all pages, and to the sections of this one. */
function navigation(file, sections) {
  const lists = groups.map((group) => groupHtml(group, file, sections))
  return `<nav id="pages" class="links" aria-label="Documentation">\n${lists.join('\n')}\n</nav>`
}

function groupHtml({ title, pages }, file, sections) {
  const items = pages.map((page) => {
    const isHere = page.file === file
    const links = sections.map(({ id, html }) => `<li><a href="#${id}">${html}</a></li>`)
    const inside = isHere && links.length > 0 ? `\n<ul>\n${links.join('\n')}\n</ul>` : ''
    return `<li><a href="${page.address}"${isHere ? ' aria-current="page"' : ''}>${escaped(page.title)}</a>${inside}</li>`
  })
  return `<h2>${escaped(title)}</h2>\n<ul>\n${items.join('\n')}\n</ul>`
}

function neighbour(rel, page) {
  if (!page) return ''
  const title = escaped(page.title)
  return `<a rel="${rel}" href="${page.address}">${rel === 'prev' ? `← ${title}` : `${title} →`}</a>`
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

await rm(TARGET, { recursive: true, force: true })
await mkdir(TARGET, { recursive: true })
await Promise.all(
  files.map(async (page) => {
    const text = page.file === INDEX ? index : await readFile(new URL(page.file, ROOT), 'utf8')
    const name = posix.basename(page.address === '/docs/' ? '/index' : page.address)
    await writeFile(new URL(`${name}.html`, TARGET), htmlOf(page, text))
  }),
)
