// The search of the documentation. `docs.mjs` builds it into one file, with MiniSearch and the sections of all pages;
// browsers load that file when somebody searches.
import MiniSearch from 'minisearch'
import sections from 'sections'
import { withAddress } from '/docs.js'

/** The most results of a search. */
const MOST = 20

/** How many characters of a section a result shows, and how many of them before the first word that was searched for. */
const EXCERPT = 140
const BEFORE = 40

const COMMON = /^(a|an|and|are|can|do|does|for|how|i|in|is|it|my|of|on|or|the|to|what|when|with)$/

const index = new MiniSearch({
  idField: 'address',
  fields: ['heading', 'page', 'text'],
  storeFields: ['heading', 'page', 'text'],
  // NTH_DATA_DIR is three words.
  tokenize: (text) => text.match(/[\p{L}\p{N}]+/gu) ?? [],
  processTerm: (word) => (COMMON.test(word.toLowerCase()) ? null : word.toLowerCase()),
  searchOptions: {
    boost: { heading: 4, page: 2 },
    prefix: (word) => word.length > 2,
    fuzzy: (word) => (word.length > 5 ? 0.2 : false),
    weights: { prefix: 0.5, fuzzy: 0.1 },
    // What changed is longer than all other pages, and seldom what somebody looks for.
    boostDocument: (address) => (address.startsWith('/docs/changelog') ? 0.2 : 1),
  },
})
index.addAll(sections.map((section) => ({ ...section, text: withAddress(section.text) })))

/** The sections that fit best, as the items of a list. */
export function search(query) {
  return index
    .search(query)
    .slice(0, MOST)
    .map(({ id, page, heading, text, terms }) => {
      const words = new RegExp(`(?<![\\p{L}\\p{N}])(${terms.join('|')})(?![\\p{L}\\p{N}])`, 'giu')
      const excerpt = marked(excerptOf(text, words), words)
      const place = page === heading ? '' : page
      return `<li><a href="${id}"><strong>${marked(heading, words)}</strong> <span class="hint">${place}</span><p class="hint">${excerpt}</p></a></li>`
    })
}

/** A text as HTML, in which some words are marked. */
function marked(text, words) {
  const parts = text.split(words).map(escaped)
  return parts.map((part, position) => (position % 2 === 1 ? `<mark>${part}</mark>` : part)).join('')
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** The part of a text that has the most of some words. */
function excerptOf(text, words) {
  const places = [...text.matchAll(words)]
  const amountFrom = ({ index }) => {
    const near = places.filter((place) => place.index >= index && place.index < index + EXCERPT - BEFORE)
    return new Set(near.map(([word]) => word.toLowerCase())).size
  }
  const [best] = places.toSorted((a, b) => amountFrom(b) - amountFrom(a))
  const start = best?.index > BEFORE ? text.lastIndexOf(' ', best.index - BEFORE) + 1 : 0
  const end = start + EXCERPT
  return `${start > 0 ? '… ' : ''}${text.slice(start, end)}${end < text.length ? '…' : ''}`
}
