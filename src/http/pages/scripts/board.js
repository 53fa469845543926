// Two boards with numbered tickets: one sequence, with a sequence group for each board.

import { ask, askOnce, isInDoubt } from './api.js'
import { subscribe } from './live.js'
import { setText, withProgress } from './messages.js'

/** How many tickets of a board a window lists. */
const LISTED = 50

/** The function that shows how many tickets a board has, by its name. */
const boards = new Map(['NINJA', 'ROCK'].map((name) => [name, openBoard(name)]))

function openBoard(name) {
  const section = document.querySelector('#board').content.cloneNode(true).firstElementChild
  const find = (selector) => section.querySelector(selector)
  const [input, result, problem, list] = ['input', '.result', '.problem', 'ol'].map(find)
  let issued = 0
  let isWriting = false

  section.setAttribute('aria-label', name)
  find('h2').textContent = name
  input.setAttribute('aria-label', `Task for ${name}`)
  find('button').setAttribute('aria-label', `New ticket on ${name}`)
  find('form').addEventListener('submit', (event) => {
    event.preventDefault()
    const text = input.value.trim()
    if (text !== '' && !isWriting) write(text)
  })
  document.querySelector('#boards').append(section)
  for (const ticket of listed(name)) list.append(itemOf(ticket))

  async function write(text) {
    isWriting = true
    setText(problem, '')
    try {
      const { value, formatted } = await withProgress(result, 'Taking a number…', () => takeNumber(name))
      const ticket = { formatted, text }
      list.prepend(itemOf(ticket))
      setListed(name, [ticket, ...listed(name)].slice(0, LISTED))
      setText(result, `Your ticket is ${formatted}.`)
      // Text typed in the meantime belongs to the next ticket.
      if (input.value.trim() === text) input.value = ''
      show(value)
    } catch (error) {
      setText(result, '')
      setText(problem, problemText(error))
    }
    isWriting = false
  }

  /** Shows how many tickets the board has. Never fewer than before: answers may arrive out of order. */
  function show(count) {
    issued = Math.max(issued, count)
    setText(find('.count'), issued === 1 ? '1 ticket' : `${issued} tickets`)
  }

  return show
}

/** Takes the next number of a board. The answer is this ticket's own, so nothing has to be read before or after. */
async function takeNumber(board) {
  const { nextInSequence } = await askOnce(
    `mutation NewTicket($board: String!) {
      nextInSequence(name: "ticket", group: $board, namespace: "boards") { value formatted }
    }`,
    { board },
  )
  return nextInSequence
}

function problemText(error) {
  return isInDoubt(error)
    ? 'The connection broke: this ticket may have a number that nobody knows.'
    : `No ticket: ${error.message}`
}

/** The tickets of this window, latest first. The API issues their numbers, but doesn't store their texts. */
function listed(board) {
  return JSON.parse(sessionStorage.getItem(`tickets of ${board}`) ?? '[]')
}

function setListed(board, tickets) {
  sessionStorage.setItem(`tickets of ${board}`, JSON.stringify(tickets))
}

function itemOf({ formatted, text }) {
  const item = document.createElement('li')
  const number = document.createElement('strong')
  number.textContent = formatted
  item.append(number, ` ${text}`)
  return item
}

const COUNTS = `Counts($ids: [ID!]!) {
  nodes(ids: $ids) { ... on SequenceGroup { name lastValue } }
}`

let ids

/** The ids of the boards, by which the subscription finds them. */
async function readIds() {
  if (ids) return { ids }
  const names = [...boards.keys()]
  const { sequence } = await ask(
    `query Boards {
      sequence(name: "ticket", namespace: "boards") {
        ${names.map((name) => `${name}: group(name: "${name}") { id }`).join('\n')}
      }
    }`,
  )
  ids = names.map((name) => sequence[name].id)
  return { ids }
}

function showCounts({ nodes }) {
  for (const { name, lastValue } of nodes) boards.get(name)(lastValue ?? 0)
}

subscribe(COUNTS, readIds, showCounts, document.querySelector('#freshness'))
