// @module-tag slow
import { expect, it } from 'vitest'
import { holdBack, loseAnswers } from '../support/browser/answers.ts'
import { expectAccessible } from '../support/browser/axe.ts'
import { openBrowser, openPage, type Window } from '../support/browser/browser.ts'
import { sorted, upTo } from '../support/client/client.ts'
import { startService } from '../support/server/service.ts'

const board = (window: Window, name: string) => window.getByRole('region', { name })

async function write(window: Window, name: string, text: string): Promise<string> {
  const one = board(window, name)
  const before = await one.getByRole('listitem').count()
  await one.getByRole('textbox').fill(text)
  await one.getByRole('button', { name: 'New ticket' }).click()
  await expect.poll(() => one.getByRole('listitem').count()).toBe(before + 1)
  expect(await one.getByRole('textbox').inputValue()).toBe('')
  return (await one.getByRole('listitem').first().locator('strong').textContent()) ?? ''
}

it('board: numbers the tickets of two boards, each from 1, and keeps them in this window', {
  tags: 'quick',
}, async () => {
  const { window } = await openPage('/board')
  await board(window, 'NINJA').getByText('0 tickets').waitFor()
  expect(await write(window, 'NINJA', 'Sharpen the sword')).toBe('NINJA-1')
  expect(await write(window, 'ROCK', 'Tune the guitar')).toBe('ROCK-1')
  expect(await write(window, 'NINJA', '<b>Vanish</b>')).toBe('NINJA-2')
  await board(window, 'NINJA').getByText('Your ticket is NINJA-2.').waitFor()
  await board(window, 'NINJA').getByText('<b>Vanish</b>').waitFor()
  await board(window, 'NINJA').getByText('2 tickets').waitFor()
  await board(window, 'ROCK').getByText('1 ticket', { exact: true }).waitFor()
  for (const name of ['NINJA', 'ROCK']) {
    expect(await window.getByRole('button', { name: `New ticket on ${name}` }).count()).toBe(1)
    expect(await window.getByRole('textbox', { name: `Task for ${name}` }).count()).toBe(1)
  }
  await window.reload()
  const tickets = (name: string) => board(window, name).getByRole('listitem').allTextContents()
  expect(await tickets('NINJA')).toEqual(['NINJA-2 <b>Vanish</b>', 'NINJA-1 Sharpen the sword'])
  expect(await tickets('ROCK')).toEqual(['ROCK-1 Tune the guitar'])
  expect([window.outside, window.complaints]).toEqual([[], []])
})

it('board: gives every ticket of many windows a number of its own', async () => {
  const { url, ask } = await startService()
  const { openWindow } = await openBrowser()
  const windows = await Promise.all(upTo(4).map(() => openWindow(`${url}/board`)))
  const numbers = { NINJA: [] as number[], ROCK: [] as number[] }
  await Promise.all(
    windows.map(async (window, index) => {
      for (const time of upTo(5)) {
        const name = (index + time) % 2 ? 'NINJA' : 'ROCK'
        const slug = await write(window, name, `Ticket ${time} of window ${index}`)
        expect(slug).toMatch(new RegExp(`^${name}-\\d+$`))
        numbers[name].push(Number(slug.split('-')[1]))
      }
    }),
  )
  expect(sorted(numbers.NINJA)).toEqual(upTo(10))
  expect(sorted(numbers.ROCK)).toEqual(upTo(10))
  for (const window of windows) {
    for (const name of ['NINJA', 'ROCK']) await board(window, name).getByText('10 tickets').waitFor()
  }
  const { sequence } = await ask(
    '{ sequence(name: "ticket", namespace: "boards") { groups { nodes { name lastFormatted } } } }',
  )
  expect(sequence.groups.nodes).toEqual([
    { name: 'NINJA', lastFormatted: 'NINJA-10' },
    { name: 'ROCK', lastFormatted: 'ROCK-10' },
  ])
})

it('board: takes one number for one ticket, also when the answer is lost, and by keyboard alone', async () => {
  const { window } = await openPage('/board')
  await board(window, 'ROCK').getByText('0 tickets').waitFor()
  const lost = await loseAnswers(window, 'mutation NewTicket', 2)
  await board(window, 'ROCK').getByRole('textbox').focus()
  await window.keyboard.type('Roll')
  await window.keyboard.press('Enter')
  await board(window, 'ROCK').getByText('Your ticket is ROCK-1.').waitFor()
  await window.keyboard.type('Roll again')
  await window.keyboard.press('Enter')
  await board(window, 'ROCK').getByText('Your ticket is ROCK-2.').waitFor()
  expect(lost.count()).toBe(2)
  await expectAccessible(window)
})

it('board: what a person types while a ticket is under way stays, in its board and in the other one', async () => {
  const { window } = await openPage('/board')
  const field = (name: string) => window.getByRole('textbox', { name })
  const tickets = await holdBack(window, 'mutation NewTicket')
  await field('NINJA').fill('Vanish')
  await window.keyboard.press('Enter')
  await expect.poll(tickets.count).toBe(1)
  await field('NINJA').fill('Appear')
  await field('ROCK').focus()
  await window.keyboard.type('Tune the ')
  tickets.release()
  await window.getByText('Your ticket is NINJA-1.').waitFor()
  await window.keyboard.type('guitar')
  expect(await field('ROCK').inputValue()).toBe('Tune the guitar')
  expect(await field('NINJA').inputValue()).toBe('Appear')
})

it('board: reports that there is no ticket when there is none', async () => {
  const { window } = await openPage('/board', {
    first: [
      'mutation { defineSequence(name: "ticket", namespace: "boards", definition: { maxValue: 1 }) { id } }',
    ],
  })
  expect(await write(window, 'NINJA', 'The only one')).toBe('NINJA-1')
  await board(window, 'NINJA').getByRole('textbox').fill('One more')
  await board(window, 'NINJA').getByRole('button').click()
  await board(window, 'NINJA')
    .getByRole('alert')
    .getByText('No ticket: Cannot issue a number, as the last number was 1')
    .waitFor()
  expect(await board(window, 'NINJA').getByRole('textbox').inputValue()).toBe('One more')
})
