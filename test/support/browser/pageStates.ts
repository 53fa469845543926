import { expireAll } from '../client/invoices.ts'
import type { Service } from '../server/service.ts'
import { cutOff, holdBack, loseNumbers, recordStreams, refuseAll } from './answers.ts'
import type { Window } from './browser.ts'
import { createCounters, edit } from './console.ts'

const SALE = 'mutation { incrementBy(name: "Bulldozer", delta: 20, namespace: "booksales") { value } }'
const edition = (title: string, copies: number) =>
  `mutation { defineCounter(name: "${title}", definition: { maxValue: ${copies} }, namespace: "booksales") { id } }`

const press = (window: Window, name: string) => window.getByRole('button', { name }).click()
const says = (window: Window, text: string | RegExp) => window.getByText(text).first().waitFor()

/** A page, and what brings it into a state: `before` it is opened, and `after`. */
interface State {
  path: string
  before?: (window: Window, service: Service) => Promise<unknown>
  after: (window: Window, service: Service) => Promise<unknown>
}

const COUNTER = '/console?namespace=n&counter=visitors'
const BOOK = '/book?title=Bulldozer'

/** The states of all pages: empty, pending, failed, sold out and so on. */
export const states: Record<string, State> = {
  'the first page, bought, with a purchase of somebody else': {
    path: '/',
    async after(window, { ask }) {
      await says(window, '0 sold so far')
      await press(window, 'Buy a copy')
      await says(window, 'You just bought copy 1')
      await ask(SALE)
      await says(window, 'Nos. 1–20')
    },
  },
  'the shop with a copy that is held': {
    path: '/shop',
    async after(window) {
      await says(window, '0 of 10 copies sold')
      await press(window, 'Buy Night Train North, one of ten')
      await says(window, 'Reserved for you until')
    },
  },
  'a counter that is held, with limits': {
    path: COUNTER,
    async before(_, { ask }) {
      const definition = '{ maxIn: [{ period: DAY, max: 20 }] }'
      await ask(`mutation {
        defineCounter(name: "visitors", namespace: "n", definition: ${definition}) { id }
        hold(changes: [{ name: "visitors", delta: 3 }], namespace: "n") { id }
      }`)
    },
    after: (window) => says(window, '3 held, and not counted yet'),
  },
  'the first page, loading': loading('/'),
  'the first page without a server': withoutServer('/'),
  'the first page with old numbers and a lost answer': {
    path: '/',
    before: recordStreams,
    async after(window) {
      await says(window, '0 sold so far')
      await refuseAll(window, 'mutation', { code: 'OUTCOME_UNKNOWN' })
      await press(window, 'Buy a copy')
      await says(window, 'may or may not')
      await loseNumbers(window)
      await says(window, 'Retry now')
    },
  },
  'the first page of a protected server': askingForKey('/'),
  'hits, one counted, one not and one unknown': {
    path: '/hits',
    async after(window) {
      await says(window, '0 readers, 0 this hour')
      await press(window, 'The lost reader')
      await says(window, 'You are reader 1')
      await refuseAll(window, '"title":"What', { code: 'UNAVAILABLE' })
      await press(window, 'What is read now')
      await says(window, 'Not counted: Try later.')
      await refuseAll(window, '"title":"A thousand', { code: 'OUTCOME_UNKNOWN' })
      await press(window, 'A thousand at once')
      await says(window, 'may or may not')
    },
  },
  'hits, loading': loading('/hits'),
  'hits without a server': withoutServer('/hits'),
  'the shop of a protected server': askingForKey('/shop'),
  'the shop': { path: '/shop', after: (window) => says(window, '0 of 100 copies sold') },
  'the shop, loading': loading('/shop'),
  'the shop without a server': withoutServer('/shop'),
  'the shop with old numbers': {
    path: '/shop',
    before: recordStreams,
    async after(window) {
      await says(window, '0 of 100 copies sold')
      await loseNumbers(window)
      await says(window, 'The numbers may be old')
    },
  },
  'the shop, one copy left, sold out, bought, buying, and not sold': {
    path: '/shop',
    async before(_, { ask }) {
      await ask(edition('Bulldozer', 2))
      await ask(edition('Red Horse Hill', 1))
    },
    async after(window) {
      await says(window, 'Only 1 left')
      for (const copy of [1, 2]) {
        await press(window, 'Buy Bulldozer')
        await says(window, `You just bought copy ${copy}`)
      }
      await says(window, 'Sold out')
      await refuseAll(window, '"title":"Sparkplug', { code: 'OUTCOME_UNKNOWN' })
      await press(window, 'Buy Sparkplug')
      await says(window, 'may or may not')
      await holdBack(window, '"title":"The Long')
      await press(window, 'Buy The Long')
      await says(window, 'Buying…')
    },
  },
  'a book without sales': { path: BOOK, after: (window) => says(window, 'No sales yet') },
  'a book': {
    path: BOOK,
    before: (_, { ask }) => ask(SALE),
    async after(window) {
      await says(window, /: 20 sold$/)
      await press(window, 'Buy Bulldozer')
      await says(window, 'You just bought copy 21')
    },
  },
  'a book, loading': loading(BOOK),
  'a book without a server': withoutServer(BOOK),
  'a book with old numbers, buying': {
    path: BOOK,
    before: recordStreams,
    async after(window) {
      await says(window, 'No sales yet')
      await loseNumbers(window)
      await says(window, 'The numbers may be old')
      await holdBack(window, 'mutation')
      await press(window, 'Buy Bulldozer')
      await says(window, 'Buying…')
    },
  },
  'a book that is sold out': {
    path: BOOK,
    async before(_, { ask }) {
      await ask(edition('Bulldozer', 2))
      await ask('mutation { incrementBy(name: "Bulldozer", delta: 2, namespace: "booksales") { value } }')
    },
    after: (window) => says(window, 'Sold out'),
  },
  'a book that was not sold': {
    path: BOOK,
    async after(window) {
      await refuseAll(window, 'mutation', { code: 'UNAVAILABLE' })
      await press(window, 'Buy Bulldozer')
      await says(window, 'Not sold')
    },
  },
  'the boards': {
    path: '/board',
    async after(window) {
      await says(window, '0 tickets')
      await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
      await press(window, 'New ticket on NINJA')
      await says(window, 'Your ticket is NINJA-1.')
    },
  },
  'the boards, loading': loading('/board'),
  'the boards without a server': withoutServer('/board'),
  'the boards with old numbers, a ticket under way and one refused': {
    path: '/board',
    before: recordStreams,
    async after(window) {
      await says(window, '0 tickets')
      await refuseAll(window, 'NINJA"}', { code: 'UNAVAILABLE' })
      await window.getByRole('textbox', { name: 'NINJA' }).fill('Vanish')
      await press(window, 'New ticket on NINJA')
      await says(window, 'No ticket: Try later.')
      await holdBack(window, 'ROCK"}')
      await window.getByRole('textbox', { name: 'ROCK' }).fill('Roll')
      await press(window, 'New ticket on ROCK')
      await says(window, 'Taking a number…')
      await loseNumbers(window)
      await says(window, 'The numbers may be old')
    },
  },
  'no invoice': { path: '/invoice', after: (window) => says(window, 'Begin an invoice') },
  'an invoice that gets its number': {
    path: '/invoice',
    async after(window) {
      await holdBack(window, 'mutation')
      await press(window, 'Begin an invoice')
      await says(window, 'Getting the number…')
    },
  },
  'an invoice without a number': {
    path: '/invoice',
    async after(window) {
      await refuseAll(window, 'mutation', { code: 'UNAVAILABLE' })
      await press(window, 'Begin an invoice')
      await says(window, 'Try again')
    },
  },
  'an invoice': {
    path: '/invoice',
    async after(window) {
      await press(window, 'Begin an invoice')
      await says(window, /^Yours until/)
    },
  },
  'an invoice that is not issued': {
    path: '/invoice',
    async after(window) {
      await press(window, 'Begin an invoice')
      await says(window, /^Yours until/)
      await refuseAll(window, 'mutation Settle', { code: 'UNAVAILABLE' })
      await press(window, 'Discard')
      await says(window, 'Not done: Try later.')
    },
  },
  'an invoice that is issued': {
    path: '/invoice',
    async after(window) {
      await press(window, 'Begin an invoice')
      await says(window, /^Yours until/)
      await window.getByRole('textbox').fill('Ada Lovelace')
      await press(window, 'Issue invoice')
      await says(window, 'Issued to Ada Lovelace.')
    },
  },
  'an invoice whose time is over': {
    path: '/invoice',
    async after(window, { target }) {
      await press(window, 'Begin an invoice')
      await says(window, /^Yours until/)
      await expireAll(target)
      await press(window, 'Discard')
      await says(window, 'The time is over')
    },
  },
  'the console without numbers': {
    path: '/console',
    after: (window) => says(window, 'Your first counter'),
  },
  'the console with counters that move': {
    path: '/console',
    before: (_, { ask }) => createCounters(ask, 'n', 3),
    after: (window) => says(window, '+3 today'),
  },
  'a search in the console': {
    path: '/console?contains=ME',
    before: (_, { ask }) => createCounters(ask, 'n', 3),
    after: (window) => says(window, 'name 0002'),
  },
  'the console, loading': {
    path: '/console',
    before: (window) => holdBack(window, 'query Home'),
    after: (window) => says(window, 'Loading…'),
  },
  'the console without a server': withoutServer('/console'),
  'the console, asking for a key': {
    path: '/console?namespace=n',
    before: (window) => refuseAll(window, '', { code: 'UNAUTHENTICATED' }),
    after: (window) => says(window, 'This server asks for an API key.'),
  },
  'the console with counters, which may be old': {
    path: '/console?namespace=n',
    async before(window, { ask }) {
      await createCounters(ask, 'n', 60)
      await cutOff(window, 'subscription ')
    },
    after: (window) => says(window, 'The numbers may be old'),
  },
  'a counter in the console, changed and refused': {
    path: COUNTER,
    async after(window) {
      await press(window, 'Increment')
      await says(window, '1: 1 added to 0.')
      await edit(window)
      await window.getByRole('textbox', { name: 'Slots' }).fill('0')
      await press(window, 'Save')
      await says(window, 'must be from 1 to 1024')
    },
  },
  'a counter in the console, before its reset': {
    path: COUNTER,
    async after(window) {
      await edit(window)
      await press(window, 'Reset…')
      await window.getByRole('dialog').waitFor()
    },
  },
  'a sequence in the console with groups': {
    path: '/console?namespace=n&sequence=ticket',
    before: (_, { ask }) =>
      ask('mutation { nextInSequence(name: "ticket", group: "NINJA", namespace: "n") { value } }'),
    async after(window) {
      await press(window, 'Issue')
      await says(window, 'Issued: ')
      await window.getByRole('link', { name: 'without a name' }).waitFor()
    },
  },
  'a gapless sequence in the console with a reservation': {
    path: '/console?namespace=n&sequence=invoice',
    before: (_, { ask }) =>
      ask(
        'mutation { defineSequence(name: "invoice", namespace: "n", definition: { gapless: true }) { id } }',
      ),
    async after(window) {
      await press(window, 'Reserve')
      await says(window, 'Held until')
    },
  },
  'the API keys in the console, one created': {
    path: '/console?view=keys',
    async after(window) {
      await press(window, 'For a page')
      await window.getByRole('textbox', { name: 'Label' }).fill('shop')
      await window.getByRole('textbox', { name: 'Origins' }).fill('https://shop.example')
      await window.getByText('More limits').click()
      await press(window, 'Create the key')
      await says(window, 'Copy the key now')
      await press(window, 'Revoke shop')
      await press(window, 'Cancel')
    },
  },
  'the API keys in the console, before one is revoked': {
    path: '/console?view=keys',
    before: (_, { ask }) =>
      ask('mutation { createApiKey(label: "shop", grants: [{ scopes: [READ] }]) { secret } }'),
    async after(window) {
      await press(window, 'Revoke shop')
      await window.getByRole('dialog').waitFor()
    },
  },
  'the trusted documents in the console, one added': {
    path: '/console?view=documents',
    async after(window) {
      await window.getByRole('textbox', { name: 'Manifest' }).fill('{ "who": "{ viewer { kind } }" }')
      await press(window, 'Add the documents')
      await says(window, 'Added: 1.')
    },
  },
  'no page': { path: '/nope', after: (window) => says(window, 'There is nothing here') },
}

function askingForKey(path: string): State {
  return {
    path,
    before: (window) => refuseAll(window, '', { code: 'UNAUTHENTICATED' }),
    after: (window) => says(window, 'This server asks for an API key.'),
  }
}

function loading(path: string): State {
  return {
    path,
    before: (window) => holdBack(window, ''),
    after: (window) => says(window, 'Loading the numbers…'),
  }
}

function withoutServer(path: string): State {
  return {
    path,
    before: (window) => cutOff(window),
    after: (window) => says(window, "The server can't be reached."),
  }
}
