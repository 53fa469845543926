// Forms that send one mutation each: their fields, what the API says is wrong, questions, and the GraphQL that was sent.

import { createContext } from 'preact'
import { useContext, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Freshness } from '/live.js'
import { Copyable, client, html, useAction, useKept } from '/page.js'
import { quoted, readAddress } from './parts.js'

/** Mutations that take an idempotency key: a lost answer is found again, also after a reload. */
const KEYED = ['increment', 'incrementBy', 'reset', 'nextInSequence', 'restartSequence', 'reserveInSequence']

/** Takes the text of each operation that is sent. */
const OnSent = createContext(() => {})

/** What is wrong with a form: a message, and the argument that it is about. */
const Problem = createContext({})

/** A field for text, or what its `kind` says: a number, lines, a check, or a choice. Children share its label. */
export function Field({ id, label, argument = id, hint, kind = 'text', value, children, ...rest }) {
  const problem = useContext(Problem)
  const message = problem.argument === argument ? problem.message : undefined
  const control = { id, name: id, 'data-kind': kind, 'aria-describedby': `${id}-about`, ...rest }
  control['aria-invalid'] = message && 'true'
  const text = { type: 'text', autocomplete: 'off', spellcheck: false, defaultValue: value, ...control }
  const optionOf = ([choice, text]) =>
    html`<option value=${choice} defaultSelected=${choice === value}>${text}</option>`
  const tag = children ? 'fieldset' : 'div'
  const name = children ? html`<legend>${label}</legend>` : html`<label for=${id}>${label}</label>`
  return html`
    <${tag} class="field" data-argument=${argument} aria-describedby=${children && `${id}-about`}>
      ${kind === 'check' && html`<input type="checkbox" defaultChecked=${value} ...${control} />`} ${name} ${children}
      ${kind === 'text' && !children && html`<input ...${text} />`}
      ${kind === 'number' && html`<input inputmode="numeric" maxlength="17" ...${text} />`}
      ${kind === 'lines' && html`<textarea rows="2" spellcheck=${false} ...${control}></textarea>`}
      ${typeof kind === 'object' && html`<select ...${control}>${Object.entries(kind).map(optionOf)}</select>`}
      <p class="hint" id="${id}-about">${hint} <span class="problem" role="alert">${message}</span></p>
    <//>`
}

/** What stands in the fields of a form. Of a wrong number the text remains, so that the API says what is wrong with it. */
function valuesOf(form) {
  const read = ({ type, checked, value, options, dataset: { kind } }) => {
    if (type === 'checkbox') return checked
    if (kind && value.trim() === '') return kind === 'text' ? value : null
    if (kind === 'number' && /^\s*[+-]?\d{1,16}\s*$/.test(value)) return Number(value)
    if (kind === 'lines') return value.split('\n').filter((line) => line.trim() !== '')
    return options ? Symbol(value) : value
  }
  const named = [...form.elements].filter(({ name }) => name)
  return Object.fromEntries(named.map((control) => [control.name, read(control)]))
}

/** Arguments for what the address shows, with those that aren't empty. */
function argsFor(values) {
  const { namespace, counter, sequence } = readAddress()
  const given = Object.entries(values).filter(([, value]) => value !== '')
  return { name: counter ?? sequence, ...Object.fromEntries(given), namespace }
}

/**
 * Sends the fields, or what `argsOf` makes of them. `done` gets the result and the form, and returns what to report. With
 * other `initial` values, the fields show them.
 */
export function MutationForm({ mutation, selection, argsOf, done, initial, submit, beside, kind, children }) {
  const form = useRef()
  useLayoutEffect(() => form.current.reset(), [initial])
  useLayoutEffect(() => {
    const details = form.current.querySelector('details:has([aria-invalid])')
    if (details) details.open = true
  })
  const onSent = useContext(OnSent)
  const isKeyed = KEYED.includes(mutation)
  const [sent, keepSent] = useKept(`nth-sent ${mutation} ${JSON.stringify(argsFor({}))}`)
  const { start, isRunning, isLong, isUnanswered, result, error } = useAction(async (text) => {
    onSent(text)
    if (isKeyed) keepSent(text)
    const data = await client.mutate(text, undefined, isKeyed ? { remember: text } : { idempotencyKey: null })
    return done(data[mutation], form.current)
  }, sent)
  function send(event) {
    event.preventDefault()
    start(textOf(mutation, (argsOf ?? argsFor)(valuesOf(form.current), form.current), selection))
  }
  const problem = problemOf(error, isUnanswered, form.current)
  return html`
    <form ref=${form} class=${kind} novalidate onSubmit=${send}>
      <${Problem.Provider} value=${problem}>${children}<//>
      <p class="line buttons"><button>${submit}</button> ${beside}</p>
      <p class="result" role="status">${isLong ? 'Waiting for the answer…' : isRunning ? '' : result}</p>
      <p class="problem" role="alert">${problem.argument === undefined && problem.message}</p>
      ${isUnanswered && html`<button type="button" class="quiet" onClick=${() => start(sent)}>Try again</button>`}
    </form>`
}

const LOST = 'The last answer was lost: this may or may not be done. It is done once, however often you try.'

/** What is wrong, and about which of a form's arguments; undefined: about none of them. */
function problemOf(error, isUnanswered, form) {
  if (!error) return isUnanswered ? { message: LOST } : {}
  // The field for a key says it.
  if (error.code === 'UNAUTHENTICATED') return {}
  if (error.isOutcomeUnknown)
    return { message: `The connection broke: this may or may not be done. ${error.message}` }
  const about = `${error.extensions?.argument}.`
  const fields = [...form.querySelectorAll('[data-argument]')].map(({ dataset }) => dataset.argument)
  return { message: error.message, argument: fields.find((name) => about.startsWith(`${name}.`)) }
}

const PERIODS = { HOUR: 'hours', DAY: 'days', WEEK: 'weeks', MONTH: 'months', YEAR: 'years' }

/** Which totals a counter keeps, and for how many days: "keep hours for 90 days". */
function PeriodsField({ periods }) {
  const rowOf = ([period, text]) => {
    const tracked = periods.find((item) => item.period === period)
    return html`
      <div class="period">
        <label><input type="checkbox" name="keep ${period}" defaultChecked=${tracked !== undefined} /> Keep ${text}</label>
        <label>
          for <input name="days ${period}" data-kind="number" inputmode="numeric" maxlength="17" placeholder="all"
            defaultValue=${tracked?.keepDays ?? ''} aria-label="Days to keep ${text}" /> days
        </label>
      </div>`
  }
  return html`
    <${Field} id="periods" label="Totals" argument="definition.periods" hint="Without a number, they are kept forever.">
      ${Object.entries(PERIODS).map(rowOf)}
    <//>`
}

function definitionIn(values, hasPeriods) {
  const members = Object.entries(values).filter(([name]) => !name.includes(' '))
  const kept = Object.keys(PERIODS).filter((period) => values[`keep ${period}`])
  const periods = kept.map((period) => ({ period: Symbol(period), keepDays: values[`days ${period}`] }))
  const given = members.map(([name, value]) => [name, value === '' ? null : value])
  return { ...Object.fromEntries(given), ...(hasPeriods && { periods }) }
}

/** Sends only what a person changed: somebody else may have changed the rest. `fields`: member, label, properties. */
function DefinitionForm({ definition, mutation, selection, fields, saved }) {
  const hasPeriods = definition.periods !== undefined
  const initial = JSON.stringify([definition.periods, ...fields.map(([id]) => definition[id])])
  function argsOf(values, form) {
    const first = form.cloneNode(true)
    first.reset()
    const before = definitionIn(valuesOf(first), hasPeriods)
    const now = Object.entries(definitionIn(values, hasPeriods))
    const changes = now.filter(([name, value]) => literal(value) !== literal(before[name]))
    return argsFor({ definition: Object.fromEntries(changes) })
  }
  function done() {
    saved()
    return 'Saved.'
  }
  const fieldOf = ([id, label, more]) =>
    html`<${Field} ...${{ id, label, ...more }} argument="definition.${id}" value=${definition[id] ?? ''} />`
  return html`
    <${MutationForm} ...${{ mutation, selection, argsOf, done, initial }} submit="Save">
      <div class="tiles columns">${fields.map(fieldOf)}</div>
      ${hasPeriods && html`<${PeriodsField} periods=${definition.periods} />`}
    <//>`
}

/** Has a mutation confirmed in a dialog. The browser returns the focus to the button. */
export function Question({ name, label, text, done, fields, ...form }) {
  const dialog = useRef()
  /** Its fields, as they were when it was opened. */
  const [opened, setOpened] = useState()
  const [result, setResult] = useState()
  useLayoutEffect(() => void (opened && dialog.current.showModal()), [opened])
  const close = () => dialog.current.close()
  function closed(answer) {
    close()
    setResult(done(answer))
  }
  const cancel = html`<button type="button" class="quiet" onClick=${close}>Cancel</button>`
  const content = html`
    <h2 id="question">${form.submit} ${quoted(name)}?</h2>
    <p>${text}</p>
    <${MutationForm} ...${form} done=${closed} beside=${cancel}>${opened?.fields}<//>`
  return html`
    <button type="button" class="quiet danger" aria-label=${label} onClick=${() => setOpened({ fields })}>${form.submit}…</button>
    <span class="result" role="status">${result}</span>
    <dialog class="card" ref=${dialog} aria-labelledby="question" onClose=${() => setOpened()}>${opened && content}</dialog>`
}

/** All about one thing: a `panel` with the GraphQL that was sent, more sections, and what changes the thing itself. */
export function Detail({ panel, children, definition, questions, live }) {
  const dangers = questions.map(({ submit }) => submit.toLowerCase()).join(', ')
  const [sent, setSent] = useState()
  return html`
    <${OnSent.Provider} value=${setSent}>
      <div class="card panel">
        ${panel}
        ${sent !== undefined && html`<${Copyable} text=${sent} label="GraphQL that was sent" button="Copy GraphQL" />`}
      </div>
      ${children}
      <details class="card panel">
        <summary>Edit <span class="hint">definition, ${dangers}</span></summary>
        <${DefinitionForm} ...${definition} />
        <div class="line">${questions.map((question) => html`<${Question} ...${question} />`)}</div>
      </details>
      ${live && html`<${Freshness} live=${live} />`}
    <//>`
}

/** A mutation with its arguments as literals, so that whoever copies it needs no variables. */
function textOf(field, args, selection) {
  const given = Object.entries(args).filter(([, value]) => value !== undefined)
  const texts = given.map(([name, value]) => `${name}: ${literal(value)}`)
  const line = texts.join(', ')
  const inside = line.length <= 60 ? line : `\n    ${texts.join('\n    ')}\n  `
  return `mutation {\n  ${field}(${inside}) {\n    ${selection}\n  }\n}`
}

/** A value in GraphQL. A symbol is a value of an enum. */
function literal(value) {
  if (typeof value === 'symbol') return value.description
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).map(([name, inner]) => `${name}: ${literal(inner)}`)
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}
