// Two boards whose tickets are numbered: one sequence, and a group of it for each board.

import { ask, askOnce, keepFresh } from './api.js'

const names = ['NINJA', 'ROCK']
const trouble = document.querySelector('#trouble')
const boards = new Map(names.map((name) => [name, openBoard(name)]))

function openBoard(name) {
  const section = document.querySelector('#board').content.cloneNode(true).firstElementChild
  const find = (selector) => section.querySelector(selector)
  const input = find('input')
  find('h2').textContent = name
  section.setAttribute('aria-label', name)
  input.setAttribute('aria-label', `New ticket of ${name}`)
  find('form').addEventListener('submit', async (event) => {
    event.preventDefault()
    const text = input.value.trim()
    if (text !== '') await write(name, text)
  })
  document.querySelector('#boards').append(section)
  return { find, input, button: find('button'), dealt: 0 }
}

/** Takes the next number of a board. The answer is this ticket's own, so nothing has to be read before or after. */
async function write(name, text) {
  const board = boards.get(name)
  board.button.disabled = true
  try {
    const { nextInSequence } = await askOnce(
      `mutation NewTicket($board: String!) {
        nextInSequence(name: "ticket", group: $board, namespace: "boards") { value formatted }
      }`,
      { board: name },
    )
    const { value, formatted } = nextInSequence
    const ticket = document.createElement('li')
    const number = document.createElement('strong')
    number.textContent = formatted
    ticket.append(number, ` ${text}`)
    board.find('ol').prepend(ticket)
    board.find('.bought').textContent = `Your ticket is ${formatted}.`
    board.input.value = ''
    trouble.textContent = ''
    show(name, value)
  } catch (error) {
    trouble.textContent =
      error.code === 'OUTCOME_UNKNOWN' || !error.code
        ? 'The connection broke: this ticket may have a number that nobody knows.'
        : `No ticket: ${error.message}`
  } finally {
    board.button.disabled = false
    board.input.focus()
  }
}

/** Shows how many tickets a board has, unless more are known of: answers may come in another order. */
function show(name, dealt) {
  const board = boards.get(name)
  board.dealt = Math.max(board.dealt, dealt)
  board.find('.sold').textContent = board.dealt === 1 ? '1 ticket' : `${board.dealt} tickets`
}

async function refresh() {
  try {
    const { sequence } = await ask(
      `query Boards {
        sequence(name: "ticket", namespace: "boards") {
          ${names.map((name) => `${name}: group(name: "${name}") { lastValue }`).join('\n')}
        }
      }`,
    )
    for (const name of names) show(name, sequence[name].lastValue ?? 0)
  } catch (error) {
    trouble.textContent = `The numbers may be old: ${error.message}`
  }
}

keepFresh(refresh)
