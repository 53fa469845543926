// Who the caller is, and the field for an API key.

import { setText } from '../../messages.js'
import { grantText, quoted } from '../formats.js'
import { ask, listenForRefusals, readKey, storeKey } from '../request.js'

const find = (selector) => document.querySelector(`#access ${selector}`)
const [who, rights, details, form, field, problem] = [
  '.viewer',
  '.rights',
  'details',
  'form',
  'input',
  '.problem',
].map(find)

/** How many grants are written out, and names of each: a key may have a hundred. */
const SHOWN = 3

const keysLink = document.querySelector('#keys-link')

/** Opens the field for a key. Calls `onChange` after each change of the key. */
export function openAccess(onChange) {
  field.value = readKey()

  async function use(key) {
    // Nothing else can be sent in a header.
    if (!/^[\x21-\x7e]*$/.test(key))
      return setText(problem, 'A key has no spaces, and only ASCII characters.')
    storeKey(key)
    field.value = key
    setText(problem, '')
    await showViewer()
    onChange()
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    use(field.value.trim())
  })
  find('#forget').addEventListener('click', () => use(''))
  listenForRefusals(({ message }) => {
    details.open = true
    setText(problem, `${message} Enter ${readKey() === '' ? 'an' : 'another'} API key.`)
  })
  showViewer()
}

const KINDS = {
  ANONYMOUS: () => 'You use no API key.',
  KEY: ({ key }) => `You use the API key ${quoted(key.label)} (${key.prefix}…).`,
  TOKEN: () => 'You use a token.',
  ADMIN: () => "You use the administrator's key.",
}

/** Shows who the caller is, and the link to the API keys to those who may manage them. */
async function showViewer() {
  const key = readKey()
  keysLink.hidden = true
  try {
    const { viewer } = await ask(`{
      viewer { kind key { label prefix } grants { scopes namespace names prefix maxDelta maxCount } }
    }`)
    // The key was changed meanwhile.
    if (key !== readKey()) return
    setText(who, KINDS[viewer.kind](viewer))
    setText(rights, rightsText(viewer.grants))
    keysLink.hidden = !viewer.grants.some(({ scopes }) => scopes.includes('ADMIN'))
  } catch {
    // What the view says is the same.
    setText(who, '')
    setText(rights, '')
  }
}

function rightsText(grants) {
  if (grants.length === 0) return 'Without a key you may do nothing here.'
  const texts = grants.slice(0, SHOWN).map((grant) => grantText(grant, SHOWN))
  if (grants.length > SHOWN) texts.push(`${grants.length - SHOWN} more`)
  return `Allowed: ${texts.join('; ')}.`
}
