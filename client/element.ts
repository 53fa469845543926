/**
 * The element `<nth-count>`: a number of a server in any page. It shows a counter, and counts when the page is opened, or
 * when a button inside is clicked. It never disturbs the page: until there is a number, its content stays as it is. What
 * fails is tried again later, or reported in the console.
 */
import { createClient, type NthClient, NthError, type Subscription } from './client.ts'

/** Pauses between attempts, in milliseconds. */
const SHORTEST_PAUSE_MS = 2_000
const LONGEST_PAUSE_MS = 60_000

const FADE_MS = 400

/** Suffixes of ordinals, by category. Numbers in other languages have none. */
const SUFFIXES: Record<string, Partial<Record<Intl.LDMLPluralRule, string>>> = {
  en: { one: 'st', two: 'nd', few: 'rd', other: 'th' },
  fr: { one: 'er', other: 'e' },
  nl: { other: 'e' },
  sv: { one: ':a', other: ':e' },
}
for (const language of ['es', 'it', 'pt']) SUFFIXES[language] = { many: 'º', other: 'º' }
for (const language of ['cs', 'da', 'de', 'fi', 'nb', 'no', 'pl', 'tr']) SUFFIXES[language] = { other: '.' }

/** A counter as the element selects it. */
interface Shown {
  name: string
  /** Null: its period is not tracked. */
  number: number | null
  /** Missing unless what is left is shown. Null: there is no bound. */
  maxValue?: number | null
  /** Missing as `maxValue`. */
  held?: number
}

/** What this browser counted, or took back. */
interface Change {
  /** Its own number. */
  own: number | null
  /** Missing if only the own number is shown, which requires no right to read. */
  counter?: Shown | null
}

/** A counter, and what this browser counted of it. */
type Read = Shown & { mine?: Change | null }

type Show = (counter: Shown) => void

/** Shows the states of a counter until a signal aborts. */
type Follow = (name: string, show: Show, signal: AbortSignal) => void

/** Reads a counter. Undefined: that was refused. */
type Reader = (name: string) => Promise<Read | undefined>

const clients = new Map<string, NthClient>()
const feeds = new Map<string, Follow>()
const readers = new Map<string, Reader>()

/** Returns what a map has under a key, and makes it first if it is missing. */
function memo<T>(map: Map<string, T>, key: string, make: () => T): T {
  const value = map.get(key) ?? make()
  map.set(key, value)
  return value
}

/** One subscription for all elements that are alike. */
function createFeed(client: NthClient, namespace: string, selection: string): Follow {
  const document = `subscription NthCount($names: [String!]!, $namespace: String!) {
    counters(names: $names, namespace: $namespace) { ${selection} }
  }`
  const followers = new Set<{ name: string; show: Show }>()
  let subscription: Subscription | undefined

  const onData = ({ counters }: { counters: (Shown | null)[] | null }) => {
    for (const counter of counters ?? [])
      for (const { name, show } of followers) if (counter?.name === name) show(counter)
  }

  /** In a task of its own, as many elements come and go at once, with microtasks between them. */
  const update = () =>
    setTimeout(() => {
      const names = [...new Set([...followers].map(({ name }) => name))]
      const variables = { names, namespace }
      if (names.length === 0) {
        subscription?.stop()
        subscription = undefined
      } else if (subscription) subscription.update(variables)
      else subscription = client.subscribe(document, variables, { onData, onError: report })
    })

  return (name, show, signal) => {
    const follower = { name, show }
    followers.add(follower)
    signal.addEventListener('abort', () => {
      followers.delete(follower)
      update()
    })
    update()
  }
}

/** Whether the same may succeed later. To repeat it is always safe here. */
function isTemporary(error: unknown): error is NthError {
  return error instanceof NthError && (error.retryable || error.isOutcomeUnknown)
}

/** Reports what the author of the page can change; that a server is down is no news. */
function report(error: unknown): void {
  if (!isTemporary(error)) console.warn('<nth-count>', error)
}

/** One request for all elements that are alike. Reading what this browser counted requires more of a key than the total. */
function createReader(client: NthClient, variables: object, types: string, selection: string): Reader {
  const query = `query NthCount($names: [String!]!, ${types}) { counters(names: $names, namespace: $namespace) { ${selection} } }`
  let names = new Set<string>()
  let answer: Promise<(Read | null)[]> | undefined

  async function readAll(): Promise<(Read | null)[]> {
    // In a task of its own, as many elements come at once.
    await new Promise((resolve) => setTimeout(resolve))
    const requested = [...names]
    names = new Set()
    answer = undefined
    const data = await client
      .query<{ counters: (Read | null)[] | null }>(query, { ...variables, names: requested })
      .catch((error) => {
        const part = error.data
        if (!part?.counters || isTemporary(error)) throw error
        report(error)
        return part
      })
    return data.counters ?? []
  }

  return async (name) => {
    names.add(name)
    answer ??= readAll()
    return (await answer).find((counter) => counter?.name === name) ?? undefined
  }
}

/** Does something until it succeeds. Undefined: it was refused, or the signal aborted. */
async function persist<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T | undefined> {
  for (let pauseMs = SHORTEST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      return await act()
    } catch (error) {
      if (signal.aborted) break
      report(error)
      if (!isTemporary(error)) break
      const ms = Math.max(pauseMs * (0.5 + Math.random() / 2), error.retryAfterMs ?? 0)
      await new Promise((resolve) => setTimeout(resolve, ms))
    }
  }
  return undefined
}

const newToken = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte + 256).join('')

let token: string | undefined

/** What identifies this browser: the subject of what it counts once. */
function tokenOfBrowser(): string {
  try {
    token ??= localStorage.getItem('nth-count') ?? newToken()
    localStorage.setItem('nth-count', token)
  } catch {
    // Denied, or full.
    token ??= newToken()
  }
  return token
}

let skips: boolean | undefined

/** Whether this browser counts nothing, such as that of the site's owner. */
function skipsCounting(): boolean {
  if (skips !== undefined) return skips
  try {
    skips = localStorage.getItem('nth-skip') !== null
  } catch {
    skips = false
  }
  if (skips) console.info('<nth-count> counts nothing: localStorage has "nth-skip".')
  return skips
}

/** The number of a counter that an element shows. */
function numberOf({ number, maxValue, held = 0 }: Shown): number | null {
  if (maxValue === undefined || number === null) return number
  return maxValue === null ? null : maxValue - number - held
}

/** Writes a number in a language; a tag that isn't one is ignored. */
function written(number: number, language: string, isOrdinal: boolean): string {
  try {
    const text = new Intl.NumberFormat(language).format(number)
    if (!isOrdinal) return text
    const category = new Intl.PluralRules(language, { type: 'ordinal' }).select(number)
    return text + (SUFFIXES[language.split('-')[0] ?? '']?.[category] ?? '')
  } catch {
    return number.toLocaleString()
  }
}

/** What the attributes of an element say. */
function settingsOf(element: Element) {
  const of = (name: string) => element.getAttribute(name) ?? ''
  const [src, key, name, period, action] = [of('src'), of('key'), of('name'), of('period'), of('action')]
  const namespace = of('namespace') || 'default'
  const url = `${src.replace(/\/$/, '')}/graphql`
  const isLeft = element.hasAttribute('left')
  const number = period && !isLeft ? `valueIn(period: ${period.toUpperCase()})` : 'value'
  const counter = `id revision name number: ${number} ${isLeft ? 'maxValue held' : ''}`
  const showsOwn = element.hasAttribute('own')
  const isOnce = action === 'once'
  return {
    name,
    namespace,
    showsOwn,
    isOnce,
    isCounting: (isOnce || action === 'increment') && !skipsCounting(),
    isLive: element.hasAttribute('live') && !showsOwn,
    client: memo(clients, `${url} ${key}`, () => createClient({ url, ...(key && { key }) })),
    /** What is counted. */
    id: [url, namespace, name].join('\n'),
    /** What is alike. */
    feed: [url, key, namespace, counter, isOnce].join('\n'),
    own: `own: ${number}`,
    counter,
    variables: { namespace, ...(isOnce && { subject: tokenOfBrowser() }) },
    types: `$namespace: String!${isOnce ? ', $subject: String!' : ''}`,
  }
}

class NthCount extends HTMLElement {
  static readonly observedAttributes =
    'src namespace name key action period left live undo own ordinal poll lang'.split(' ')

  #settings = settingsOf(this)
  /** Ends when an attribute changes, or the element leaves the page. */
  #session = new AbortController()
  /** The counter that was counted without a click. */
  #counted: string | undefined
  /** How many changes had a result: what was read before is out of date. */
  #changes = 0
  #total: number | null | undefined
  #own: number | null | undefined
  /** Whether this browser has counted once. */
  #isPressed = false
  /** The content before there was a number. */
  #content: string | undefined
  /** The number that is shown. */
  #number: number | null = null

  connectedCallback(): void {
    this.addEventListener('click', this.#onClick)
    this.#begin().catch(report)
  }

  disconnectedCallback(): void {
    this.#session.abort()
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.#begin().catch(report)
  }

  async #begin(): Promise<void> {
    this.#session.abort()
    this.#session = new AbortController()
    const { signal } = this.#session
    // Its content may still arrive, and more attributes may change.
    if (document.readyState === 'loading')
      await new Promise((resolve) => document.addEventListener('DOMContentLoaded', resolve))
    await undefined
    if (signal.aborted) return
    this.#settings = settingsOf(this)
    const { name, namespace, client, id, feed, counter, isCounting, isOnce, isLive, showsOwn } =
      this.#settings
    // In another language, perhaps.
    if (this.#number !== null) this.#render()
    if (!name) return
    // At once, so that elements that come together share one stream. The client drops what is older than what it had.
    if (isLive) {
      const follow = memo(feeds, feed, () => createFeed(client, namespace, counter))
      follow(name, (shown) => this.#show(numberOf(shown)), signal)
    }
    if (isCounting && !this.querySelector('button') && this.#counted !== id) {
      if (await this.#change(signal, 'increment', id)) this.#counted = id
    } else if (isOnce || !(showsOwn || isLive)) await this.#read(signal)
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { client, name, variables, types, own, counter, isOnce, feed } = this.#settings
    const selection = isOnce ? `${counter} mine: changeOf(subject: $subject) { ${own} }` : counter
    const read = memo(readers, feed, () => createReader(client, variables, types, selection))
    const changes = this.#changes
    const found = await persist(signal, () => read(name))
    if (!found || signal.aborted || changes !== this.#changes) return
    this.#show(numberOf(found), found.mine?.own ?? null, Boolean(found.mine))
  }

  /**
   * Counts, or takes back what was counted. Returns whether it was done.
   *
   * @param remember a name under which it is repeated if the page is opened again before there is a result
   */
  async #change(signal: AbortSignal, field: 'increment' | 'uncount', remember?: string): Promise<boolean> {
    const { client, name, variables, types, own, counter, isOnce, showsOwn } = this.#settings
    const subject = isOnce ? ', subject: $subject' : ''
    const total = showsOwn ? '' : `counter { ${counter} }`
    const mutation = `mutation NthCount($name: String!, ${types}) { change: ${field}(name: $name, namespace: $namespace${subject}) { ${own} ${total} } }`
    // A subject makes it safe to repeat without a key.
    const key = isOnce ? null : newToken()
    const options = { signal, ...(remember && !isOnce ? { remember } : { idempotencyKey: key }) }
    const data = await persist(signal, () =>
      client.mutate<{ change: Change | null }>(mutation, { ...variables, name }, options),
    )
    if (!data) return false
    this.#changes += 1
    const { change } = data
    const isCounted = field === 'increment'
    this.#show(
      change?.counter ? numberOf(change.counter) : undefined,
      isCounted ? change?.own : null,
      isOnce && isCounted,
    )
    return true
  }

  /** The elements of which a person may press one: those of a poll, or this one. */
  get #choices(): NthCount[] {
    const poll = this.getAttribute('poll')
    if (poll === null) return [this]
    const isChoice = (other: Element) => other instanceof NthCount && other.getAttribute('poll') === poll
    return [...document.querySelectorAll<NthCount>('nth-count')].filter(isChoice)
  }

  /** Whether a click would change nothing. */
  get #isFinal(): boolean {
    return !this.hasAttribute('undo') && this.#choices.some((choice) => choice.#isPressed)
  }

  readonly #onClick = ({ target }: Event): void => {
    const { isCounting, isOnce } = this.#settings
    if (!isCounting || !(target instanceof Element && target.closest('button'))) return
    const done = isOnce ? this.#toggle() : this.#change(this.#session.signal, 'increment')
    done.catch(report)
  }

  async #toggle(): Promise<void> {
    const choices = this.#choices
    if (this.#isFinal || choices.some((choice) => choice.ariaBusy)) return
    const { signal } = this.#session
    const wasPressed = this.#isPressed
    this.ariaBusy = 'true'
    for (const choice of choices) if (choice.#isPressed) await choice.#change(signal, 'uncount')
    if (!wasPressed && !choices.some((choice) => choice.#isPressed)) await this.#change(signal, 'increment')
    this.ariaBusy = null
  }

  /** Undefined: unchanged. */
  #show(total = this.#total, own = this.#own, isPressed = this.#isPressed): void {
    this.#total = total
    this.#own = own
    this.#isPressed = isPressed
    for (const choice of this.#choices) choice.#render()
  }

  #render(): void {
    const { isOnce, showsOwn } = this.#settings
    const button = this.querySelector('button')
    if (button && isOnce) {
      button.ariaPressed = String(this.#isPressed)
      button.ariaDisabled = String(this.#isFinal)
    }
    let output: HTMLElement | null = this.querySelector('output')
    if (button && !output) {
      output = document.createElement('output')
      button.after(' ', output)
    }
    output ??= this
    this.#content ??= output.textContent ?? ''
    const number = (showsOwn ? this.#own : this.#total) ?? null
    const language = this.lang || navigator.language
    const text = number === null ? this.#content : written(number, language, this.hasAttribute('ordinal'))
    if (text !== output.textContent) this.#write(output, text)
    if (number === this.#number) return
    this.#number = number
    // Like those of forms, but their listeners around this element shall not get it: it doesn't bubble.
    this.dispatchEvent(new CustomEvent('change', { detail: { number } }))
  }

  #write(output: HTMLElement, text: string): void {
    output.textContent = text
    output.style.fontVariantNumeric = 'tabular-nums'
    // The first number is no news.
    const isFirst = !output.ariaLive
    output.ariaLive = 'polite'
    if (!isFirst && !matchMedia('(prefers-reduced-motion: reduce)').matches)
      output.animate({ opacity: [0.3, 1] }, FADE_MS)
  }
}

if (!customElements.get('nth-count')) customElements.define('nth-count', NthCount)
