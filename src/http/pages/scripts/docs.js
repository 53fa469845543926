// What scripts add to a page of the documentation: this server's address, buttons that copy, and the search.

const article = document.querySelector('article')
const pages = document.querySelector('#pages')
const box = document.querySelector('#query')
const panel = document.querySelector('#found')
const [status, list] = panel.children

/** A text with this server's address instead of the one that the Markdown has. */
export const withAddress = (text) => text.replaceAll('http://127.0.0.1:4000', location.origin)

const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT)
while (texts.nextNode()) texts.currentNode.data = withAddress(texts.currentNode.data)
for (const link of article.querySelectorAll('[href^=http]')) link.href = withAddress(link.href)

// The list scrolls by itself, with the present page in its middle.
const present = pages.querySelector('[aria-current]')
if (present) pages.scrollTop = present.offsetTop - pages.clientHeight / 2

article.addEventListener('click', async ({ target }) => {
  if (!target.matches('.copy button')) return
  for (const said of article.querySelectorAll('.copy [role]')) said.textContent = ''
  const code = target.closest('.block').querySelector('code')
  // Browsers give pages the clipboard on https and on this machine only.
  const copying = navigator.clipboard?.writeText(code.textContent).then(() => 'Copied.')
  const copied = await copying?.catch(() => {})
  if (!copied) getSelection().selectAllChildren(code)
  target.previousElementSibling.textContent = copied ?? 'Selected: press Ctrl+C to copy.'
})

let failures = 0

/** Browsers keep that a module failed to load, so each attempt has an address of its own. */
async function loadSearch() {
  try {
    return await import(failures === 0 ? '/docs/search.js' : `/docs/search.js?${failures}`)
  } catch {
    failures += 1
  }
}

async function find() {
  const query = box.value.trim()
  panel.hidden = query === ''
  if (panel.hidden) return
  const loaded = await loadSearch()
  if (query !== box.value.trim()) return
  const results = loaded?.search(query) ?? []
  list.innerHTML = results.join('')
  const none = loaded ? 'Nothing found.' : "The search couldn't be loaded. Type again to retry."
  status.textContent =
    results.length > 0 ? `Best results: ${results.length}. Enter opens the first one.` : none
}

if (matchMedia('(hover: hover)').matches) box.placeholder = 'Type / to search'
box.addEventListener('input', find)
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return
  const places = [box, ...list.querySelectorAll('a')]
  const place = places.indexOf(document.activeElement)
  if (event.key === 'Enter' && place === 0)
    find().then(() => panel.hidden || list.querySelector('a')?.click())
  const moves = { ArrowDown: places[place + 1], ArrowUp: places[place - 1], Escape: place > 0 && box }
  const next = event.key === '/' ? place !== 0 && box : place >= 0 && moves[event.key]
  if (!next) return
  event.preventDefault()
  next.focus()
})
