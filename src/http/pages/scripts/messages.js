// What pages report: progress, results and errors, and which buttons can be pressed.

/** How long an answer may take before the page shows progress, in milliseconds. */
const PROGRESS_AFTER_MS = 300

/** Sets a text only if it differs: screen readers announce a live region on every write, even of the same text. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

/** Runs a task, and shows `text` in `element` if it takes longer than that. */
export async function withProgress(element, text, task) {
  const timer = setTimeout(() => setText(element, text), PROGRESS_AFTER_MS)
  try {
    return await task()
  } finally {
    clearTimeout(timer)
    if (element.textContent === text) setText(element, '')
  }
}

/**
 * Enables or disables a button by `aria-disabled`: `disabled` would drop its focus, and no answer may move focus. Its
 * handler has to check by itself whether it may act.
 */
export function setEnabled(button, isEnabled) {
  if (isEnabled) button.removeAttribute('aria-disabled')
  else button.setAttribute('aria-disabled', 'true')
}
