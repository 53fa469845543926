// Keeps the numbers of a page fresh.

import { setText, withProgress } from './messages.js'

const EVERY_MS = 2000

/**
 * Calls `readAndShow` every two seconds while the page is visible, and shows in `element` that it fails, until it
 * succeeds. Returns a function that refreshes at once.
 */
export function refreshPeriodically(readAndShow, element) {
  const progress = element.querySelector('.progress')
  const problem = element.querySelector('.problem')
  let hasNumbers = false

  async function refresh() {
    const isFirst = !hasNumbers && problem.textContent === ''
    try {
      await (isFirst ? withProgress(progress, 'Loading the numbers…', readAndShow) : readAndShow())
      hasNumbers = true
      setText(problem, '')
    } catch (error) {
      // Keeps the first reason: screen readers would announce each new text.
      if (problem.textContent === '') setText(problem, problemText(error, hasNumbers))
    }
  }

  async function poll() {
    if (!document.hidden) await refresh()
    setTimeout(poll, EVERY_MS)
  }
  document.addEventListener('visibilitychange', () => document.hidden || refresh())
  poll()
  return refresh
}

function problemText({ code, message }, hasNumbers) {
  if (hasNumbers) return `The numbers may be old: ${message}`
  return code === 'NO_ANSWER'
    ? `${message} This page keeps trying.`
    : `The numbers can't be reached: ${message}`
}
