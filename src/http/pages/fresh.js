// Keeps the numbers of a page fresh.

import { say, withProgress } from './messages.js'

const EVERY_MS = 2000

/**
 * Calls `readAndShow` every two seconds while the page is visible, and shows in `place` that it fails, until it
 * succeeds. Returns a function that refreshes at once.
 */
export function keepFresh(readAndShow, place) {
  const progress = place.querySelector('.progress')
  const trouble = place.querySelector('.trouble')
  let hasNumbers = false

  async function refresh() {
    const isFirst = !hasNumbers && trouble.textContent === ''
    try {
      await (isFirst ? withProgress(progress, 'Loading the numbers…', readAndShow) : readAndShow())
      hasNumbers = true
      say(trouble, '')
    } catch (error) {
      // Keeps the first reason: screen readers would announce each new text.
      if (trouble.textContent === '') say(trouble, troubleText(error, hasNumbers))
    }
  }

  async function again() {
    if (!document.hidden) await refresh()
    setTimeout(again, EVERY_MS)
  }
  document.addEventListener('visibilitychange', () => document.hidden || refresh())
  again()
  return refresh
}

function troubleText({ code, message }, hasNumbers) {
  if (hasNumbers) return `The numbers may be old: ${message}`
  return code === 'NO_ANSWER'
    ? `${message} This page keeps trying.`
    : `The numbers can't be reached: ${message}`
}
