// @module-tag slow
import { expect, it } from 'vitest'
import { cutOff, holdBack, loseAnswers } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { recordTexts } from '../support/browser/texts.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { startRelay } from '../support/client/relay.ts'
import { query } from '../support/database/database.ts'
import { startService } from '../support/server/service.ts'

const book = (window: Window, title: string) => window.getByRole('listitem').filter({ hasText: title })
const EDITION = 'Red Horse Hill, signed'
const HELD = 'Night Train North, one of ten'

const buy = (window: Window, title: string) => window.getByRole('button', { name: `Buy ${title}` }).click()

it('shop: shows seven books and what was sold of each', { tags: 'quick' }, async () => {
  const { window } = await openPage('/shop', {
    first: [
      'mutation { incrementBy(name: "The Long Trains Roll", delta: 1234, namespace: "booksales") { value } }',
    ],
  })
  await window.getByText('1,234 copies sold').waitFor()
  expect(await window.getByRole('heading', { level: 2 }).allTextContents()).toEqual([
    'Red Horse Hill',
    'Sparkplug of the Hornets',
    'Bulldozer',
    'The Long Trains Roll',
    'Who Rides in the Dark?',
    EDITION,
    HELD,
  ])
  await window.getByText('0 of 100 copies sold').waitFor()
  expect(await window.getByText('0 copies sold', { exact: true }).count()).toBe(4)
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('shop: shows every buyer in many windows which copy is theirs', async () => {
  const { url, ask } = await startService()
  const { openWindow } = await openBrowser()
  const windows = await Promise.all(upTo(5).map(() => openWindow(`${url}/shop`)))
  const copies: number[] = []
  for (const _ of upTo(3)) {
    await Promise.all(
      windows.map(async (window) => {
        const status = book(window, 'Bulldozer').getByRole('status')
        const before = await status.textContent()
        await buy(window, 'Bulldozer')
        // What it said of the copy before stays until there is an answer.
        await expect.poll(() => status.textContent()).not.toBe(before)
        await expect
          .poll(() => status.textContent())
          .toMatch(/^You just bought copy (\d+) of Bulldozer, the \1(st|nd|rd|th) this month\.$/)
        await expect.poll(() => window.getByRole('button', { name: 'Buy Bulldozer' }).isEnabled()).toBe(true)
      }),
    )
    for (const window of windows) {
      const text = await book(window, 'Bulldozer').getByRole('status').textContent()
      copies.push(Number(/copy (\d+)/.exec(text ?? '')?.[1]))
    }
  }
  expect(sorted(copies)).toEqual(upTo(15))
  // Windows that did not buy last come to the same number by themselves.
  for (const window of windows) await book(window, 'Bulldozer').getByText('15 copies sold').waitFor()
  const { counters } = await ask('{ counters(names: ["Bulldozer"], namespace: "booksales") { value } }')
  expect(counters).toEqual([{ value: 15 }])
})

it('shop: shows a purchase at once, without reading again', async () => {
  const { window } = await openPage('/shop', { hasSockets: false })
  await book(window, 'Bulldozer').getByText('0 copies sold').waitFor()
  await cutOff(window, 'Sales')
  await buy(window, 'Bulldozer')
  await book(window, 'Bulldozer').getByText('1 copy sold').waitFor()
})

it('shop: can be used with the keyboard only', async () => {
  const { window } = await openPage('/shop')
  await book(window, 'Bulldozer').getByText('0 copies sold').waitFor()
  // The first link skips the navigation. To each book leads a link, too.
  await window.keyboard.press('Tab')
  await window.keyboard.press('Enter')
  for (const _ of upTo(6)) await window.keyboard.press('Tab')
  await window.keyboard.press('Enter')
  await book(window, 'Bulldozer')
    .getByText('You just bought copy 1 of Bulldozer, the 1st this month.')
    .waitFor()
  await expect.poll(() => window.evaluate('document.activeElement.ariaLabel')).toBe('Buy Bulldozer')
})

it('shop: leaves the focus where it is when a purchase is answered', async () => {
  const { window } = await openPage('/shop', {
    first: [
      'mutation { defineCounter(name: "Bulldozer", namespace: "booksales", definition: { maxValue: 2 }) { id } }',
    ],
  })
  const focused = () =>
    window.evaluate('document.activeElement.ariaLabel || document.activeElement.textContent.trim()')
  const purchases = await holdBack(window, 'mutation Buy')
  await buy(window, 'Bulldozer')
  await expect.poll(purchases.count).toBe(1)
  await window.getByRole('link', { name: 'GraphiQL' }).focus()
  purchases.release()
  await window.getByText('You just bought copy 1 of Bulldozer').waitFor()
  expect(await focused()).toBe('GraphiQL')
  // On the button itself, too, also when it has nothing more to sell.
  await window.getByRole('button', { name: 'Buy Bulldozer' }).focus()
  await window.keyboard.press('Enter')
  await window.getByText('You just bought copy 2 of Bulldozer').waitFor()
  expect(await focused()).toBe('Sold out Bulldozer')
})

it('shop: says how few copies of an edition are left, and sells none beyond them', async () => {
  const { url, ask } = await startService()
  const { openWindow } = await openBrowser()
  const relay = await startRelay(url)
  const [window, other] = [await openWindow(`${url}/shop`), await openWindow(`${relay.url}/shop`)]
  for (const one of [window, other]) await book(one, EDITION).getByText('0 of 100 copies sold').waitFor()
  expect(await book(window, EDITION).getByText('left').count()).toBe(0)
  const sell = (delta: number) =>
    ask(
      'mutation($name: String!, $delta: SafeInt!) { incrementBy(name: $name, delta: $delta, namespace: "booksales") { value } }',
      {
        name: EDITION,
        delta,
      },
    )
  await sell(96)
  await buy(window, EDITION)
  for (const one of [window, other]) {
    await book(one, EDITION).getByText('97 of 100 copies sold').waitFor()
    await book(one, EDITION).getByText('Only 3 left').waitFor()
  }
  await expectAccessible(window)
  // This window doesn't learn that the others are sold, until it tries.
  relay.hold()
  await sell(2)
  await buy(window, EDITION)
  await book(window, EDITION)
    .getByText('You just bought copy 100 of Red Horse Hill, signed, the 100th this month.')
    .waitFor()
  await buy(other, EDITION)
  await other.getByRole('alert').getByText('somebody else has bought the last copy').waitFor()
  relay.release()
  for (const one of [window, other]) {
    await book(one, EDITION).getByText('100 of 100 copies sold').waitFor()
    await book(one, EDITION).getByText('Sold out').waitFor()
    expect(await book(one, EDITION).getByRole('button').isDisabled()).toBe(true)
  }
  const { counter } = await ask(`{ counter(name: "${EDITION}", namespace: "booksales") { value maxValue } }`)
  expect(counter).toEqual({ value: 100, maxValue: 100 })
})

it('shop: holds a copy while its buyer pays, gives it back if they cancel or never do, and says why there is none', async () => {
  const { url, ask, target } = await startService()
  const { openWindow } = await openBrowser()
  const [window, other] = [await openWindow(`${url}/shop`), await openWindow(`${url}/shop`)]
  const button = (one: Window, label: string) => one.getByRole('button', { name: `${label} ${HELD}` })
  const shows = (one: Window, text: string) => book(one, HELD).getByText(text).waitFor()
  for (const one of [window, other]) await shows(one, '0 of 10 copies sold')
  await ask(`mutation { incrementBy(name: "${HELD}", delta: 8, namespace: "booksales") { value } }`)
  await shows(window, '8 of 10 copies sold')
  for (const one of [window, other]) await button(one, 'Buy').click()
  for (const one of [window, other]) await shows(one, 'Reserved for you until')
  await expectAccessible(window)
  const third = await openWindow(`${url}/shop`)
  await button(third, 'Being paid for').waitFor()
  await button(window, 'Pay').click()
  await shows(window, `You just bought copy 9 of ${HELD}, the 9th this month.`)
  await button(other, 'Cancel').click()
  await button(third, 'Buy').click()
  await shows(third, 'Reserved for you until')
  // It is abandoned.
  const past = ['open_until = 1, expires_at = 1 where open_until is not null', 'first_expiry = 1']
  await query(target, `update hold set ${past[0]}`, `update counter_value set ${past[1]} where held_up > 0`)
  await button(window, 'Buy').click()
  await button(window, 'Pay').click()
  await shows(window, `You just bought copy 10 of ${HELD}`)
  await button(third, 'Pay').click()
  await third.getByRole('alert').getByText('This hold has expired').waitFor()
  await button(third, 'Sold out').waitFor()
  expect(await ask(`{ counter(name: "${HELD}", namespace: "booksales") { value held } }`)).toEqual({
    counter: { value: 10, held: 0 },
  })
})

it('shop: buys one copy for one click, also when the answer is lost', { tags: 'quick' }, async () => {
  const { window, ask } = await openPage('/shop')
  await book(window, 'Bulldozer').getByText('0 copies sold').waitFor()
  const lost = await loseAnswers(window, 'mutation Buy', 2)
  await buy(window, 'Bulldozer')
  await book(window, 'Bulldozer')
    .getByText('You just bought copy 1 of Bulldozer, the 1st this month.')
    .waitFor()
  expect(lost.count()).toBe(2)
  expect(await ask('{ counter(name: "Bulldozer", namespace: "booksales") { value } }')).toEqual({
    counter: { value: 1 },
  })
})

it('shop: shows the present sales, not those at the first attempt, when a retry gets the answer', async () => {
  const { window, ask } = await openPage('/shop')
  await book(window, EDITION).getByText('0 of 100 copies sold').waitFor()
  const sell = (delta: number) =>
    ask(`mutation { incrementBy(name: "${EDITION}", delta: ${delta}, namespace: "booksales") { value } }`)
  await sell(96)
  const retry = await holdBack(window, 'mutation Buy')
  await loseAnswers(window, 'mutation Buy', 1)
  await buy(window, EDITION)
  await expect.poll(retry.count).toBe(1)
  await sell(3)
  await window.getByRole('button', { name: `Sold out ${EDITION}` }).waitFor()
  const sold = await recordTexts(window, '.sold, li > button')
  retry.release()
  await window.getByText('You just bought copy 97 of').waitFor()
  expect(await sold()).toEqual([])
})
