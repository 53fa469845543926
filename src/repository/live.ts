import { performance } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { NamedOperation } from '../commit/call.ts'
import type { Notices } from '../operations/log.ts'
import { refusalMeasure } from '../operations/measures.ts'
import { calendarOf, isKnownZone, type Period } from '../rules/calendar.ts'
import { type CounterKey, type CounterState, keyText, type Retention } from '../rules/counter.ts'
import { errorOf, NthError, unavailable } from '../rules/errors.ts'
import type { LeaderboardEntry, LeaderboardOrder } from '../rules/leaderboards.ts'
import { joinNames } from '../rules/names.ts'
import {
  type Reservation,
  type SequenceGroupKey,
  type SequenceGroupState,
  sequenceGroupKeyText,
} from '../rules/sequence.ts'

export type Topic =
  | { kind: 'counter'; key: CounterKey }
  | { kind: 'sequenceGroup'; key: SequenceGroupKey }
  | { kind: 'reservation'; key: { token: string } }
  | { kind: 'leaderboard'; key: LiveLeaderboardKey }

/** The first counters of a namespace: by value, or by the total of the current period. */
export interface LiveLeaderboardKey {
  namespace: string
  order: LeaderboardOrder
  period: Period | null
}

/** Maximum counters of a leaderboard that is watched. */
export const MAX_LEADERS = 100

interface Leaders {
  entries: readonly LeaderboardEntry[]
}

type TopicState = CounterState | SequenceGroupState | Reservation | Leaders

/** A topic that is watched, with its state as last read. */
export interface Watched {
  readonly topic: Topic
  /** Null: it doesn't exist. An error: it can't be read. Undefined: not read yet. */
  state: TopicState | Error | null | undefined
  readonly text: string
  readonly feeds: Set<Feed>
  /** Of a leaderboard: when it was last read, and that read until it is over. */
  readAt: number
  reading: Promise<void> | undefined
}

/** What somebody watches. */
interface Feed {
  /**
   * Called with the topics whose states changed, at most ten times a second, and not before the last call has ended. If
   * it throws, the next call gets these topics, too.
   */
  readonly onChanged: (changed: ReadonlySet<Watched>) => Promise<void>
  /** Periods at whose end counters count as changed: their current total and their history differ then. */
  readonly periods: readonly Period[]
  readonly entries: Set<Watched>
  /** The entries that changed since the last call began. */
  changed: Set<Watched>
  /** Whether the last call has not ended. */
  isDelivering: boolean
  /** When the first of its periods ends in a counter, in milliseconds since 1970. */
  readonly periodEnds: Map<Watched, number>
}

interface LiveOptions {
  /** Reads topics of one kind; undefined where there is none, and an error where one can't be read. */
  read: {
    [Kind in BatchedKind]: (
      keys: readonly KeyOf<Kind>[],
    ) => Promise<readonly (TopicState | Error | undefined)[]>
  }
  /** Reads a leaderboard; null: the namespace has no such one. It may wait for what was changed to be copied. */
  readLeaders: (key: LiveLeaderboardKey) => Promise<Leaders | null>
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
  notices: Notices
}

type KeyOf<Kind> = Extract<Topic, { kind: Kind }>['key']

/** Kinds of topics that are read together. */
const KINDS = ['counter', 'sequenceGroup', 'reservation'] as const
type BatchedKind = (typeof KINDS)[number]
/** Maximum topics of a process. A leaderboard counts as many. */
export const MAX_TOPICS = 20_000
/** Time from one read of a leaderboard to the next. */
const LEADERBOARD_MS = 1000
/** Maximum keys of one read. */
const MAX_KEYS = 1000
/** Time from one read of everything that is watched to the next. */
const POLL_MS = 300
/** Minimum time from one tick to the next. */
const TICK_MS = 100
/** In a busy process, pauses are this many times as long as the tick before, so that ticks take a small part of the time. */
const PAUSE_FACTOR = 24
/** Longest pause: so that there are two ticks a second, unless they themselves take long. */
const MAX_PAUSE_MS = 400
/** While nothing is watched: the longest delay of a timer. */
const LONGEST_SLEEP_MS = 2 ** 31 - 1
/** Utilisation of the event loop from which a process is busy, and how often it is measured. */
const BUSY = 0.5
const MEASURE_MS = 20

/**
 * Watches counters, sequence groups and reservations. Whoever changes them, their states are read from the database, in
 * ticks: a tick reads what was marked since the last one, and every 300 ms all that is watched. This process marks what
 * its flushes change; the poll finds what other processes changed, what was changed by hand, and what expired.
 *
 * All states come from these reads, one tick after another, so nobody gets an older one after a newer one. While
 * nothing is watched, nothing is read.
 */
export class Live {
  readonly #options: LiveOptions
  readonly #entries = new Map<string, Watched>()
  readonly #feeds = new Set<Feed>()
  readonly #marked = new Set<Watched>()
  #size = 0
  /** Called with the error of the next tick that begins, if it has one. */
  #waiting: ((error?: Error) => void)[] = []
  #isClosed = false
  // Instants on the clock of `performance.now()`. The next tick is allowed from the first one on; in a busy process, later.
  #nextTick = { earliest: 0, latest: 0 }
  #lastPoll = 0
  /** Ends the wait for something to do. */
  #sleep = new AbortController()

  constructor(options: LiveOptions) {
    this.#options = options
    // Here, so that it belongs to no request.
    void this.#run()
  }

  /** Marks what was changed, so that it is read in the next tick. */
  mark(operations: readonly NamedOperation[]): void {
    if (this.#entries.size === 0) return
    for (const { kind, name, operation } of operations) {
      // The kind says whether a name is a counter's or a sequence group's.
      this.#markTopic({ kind, key: name } as Topic)
      if ('token' in operation) this.#markTopic({ kind: 'reservation', key: { token: operation.token } })
    }
  }

  #markTopic(topic: Topic): void {
    const entry = this.#entries.get(topicText(topic))
    if (!entry) return
    this.#marked.add(entry)
    this.#sleep.abort()
  }

  open({ onChanged, periods }: Pick<Feed, 'onChanged' | 'periods'>): Feed {
    const feed: Feed = {
      onChanged,
      periods,
      entries: new Set(),
      changed: new Set(),
      isDelivering: false,
      periodEnds: new Map(),
    }
    this.#feeds.add(feed)
    return feed
  }

  /**
   * Watches topics, each once, besides the feed's earlier topics. Returns them with states that were read after this call.
   *
   * @throws {NthError} UNAVAILABLE if they can't be read, the feed was closed, or the process would watch more than 20 000
   */
  async watch(feed: Feed, topics: readonly Topic[]): Promise<Watched[]> {
    if (!this.#feeds.has(feed) || this.#isClosed) throw unavailable('The subscription has ended.')
    const entries = this.#entries
    const texts = topics.map(topicText)
    const added = topics.filter((_, index) => !entries.has(texts[index] ?? ''))
    if (this.#size + weightOf(added) > MAX_TOPICS) {
      refusalMeasure.publish('watched names')
      throw unavailable(
        `The subscriptions of this process watch ${this.#size} names, of at most ${MAX_TOPICS}. Try again later.`,
      )
    }
    const watched = topics.map((topic, index) => {
      const text = texts[index] ?? ''
      let entry = entries.get(text)
      if (!entry) {
        entry = { topic, text, state: undefined, feeds: new Set(), readAt: 0, reading: undefined }
        entries.set(text, entry)
        this.#size += weightOf([topic])
      }
      entry.feeds.add(feed)
      feed.entries.add(entry)
      this.#marked.add(entry)
      return entry
    })
    const isRead = new Promise<void>((resolve, reject) => {
      this.#waiting.push((error) => (error ? reject(error) : resolve()))
    })
    this.#sleep.abort()
    await isRead
    for (const entry of watched) if (entry.state === undefined) await entry.reading
    await this.#followPeriods(feed, watched)
    return watched
  }

  closeFeed(feed: Feed): void {
    this.#feeds.delete(feed)
    for (const entry of feed.entries) {
      entry.feeds.delete(feed)
      if (entry.feeds.size > 0) continue
      this.#entries.delete(entry.text)
      this.#marked.delete(entry)
      this.#size -= weightOf([entry.topic])
    }
  }

  /** How many different names are watched. A leaderboard counts as many. */
  get size(): number {
    return this.#size
  }

  close(): void {
    this.#isClosed = true
    for (const answer of this.#waiting) answer(unavailable('Nth is shutting down.'))
    this.#sleep.abort()
  }

  async #run(): Promise<void> {
    while (true) {
      await this.#untilDue()
      if (this.#isClosed) return
      const began = performance.now()
      await this.#tick(began).catch(this.#options.notices.fault)
      const ended = performance.now()
      const latest = ended + Math.min(PAUSE_FACTOR * (ended - began), MAX_PAUSE_MS)
      this.#nextTick = { earliest: began + TICK_MS, latest }
    }
  }

  /**
   * Waits until the next tick is allowed, and then until something is marked or, while anything is watched, for the next
   * poll.
   */
  async #untilDue(): Promise<void> {
    const { earliest, latest } = this.#nextTick
    await pause(Math.max(0, earliest - performance.now()), undefined, { ref: false })
    while (performance.now() < latest && (await isBusy()));
    if (this.#waiting.length > 0 || this.#marked.size > 0 || this.#isClosed) return
    this.#sleep = new AbortController()
    const { signal } = this.#sleep
    const untilPoll = Math.max(0, this.#lastPoll + POLL_MS - performance.now())
    const restMs = this.#entries.size > 0 ? untilPoll : LONGEST_SLEEP_MS
    await pause(restMs, undefined, { ref: false, signal }).catch(() => undefined)
  }

  async #tick(began: number): Promise<void> {
    const isPoll = began >= this.#lastPoll + POLL_MS
    const due = isPoll ? [...this.#entries.values()] : [...this.#marked]
    // Before the read: what is marked from now on is read again.
    this.#marked.clear()
    const answered = this.#waiting
    this.#waiting = []
    try {
      for (const kind of KINDS) await this.#readAll(kind, due)
    } catch (error) {
      for (const entry of due) this.#marked.add(entry)
      for (const answer of answered) answer(errorOf(error))
      // An unreachable database is reported elsewhere.
      if (!(error instanceof NthError)) throw error
      return
    }
    if (isPoll) this.#lastPoll = began
    for (const entry of due) if (began >= entry.readAt + LEADERBOARD_MS) this.#readLeaders(entry)
    for (const answer of answered) answer()
    const at = this.#options.now().getTime()
    for (const feed of this.#feeds) {
      for (const [watched, end] of feed.periodEnds) if (end <= at) feed.changed.add(watched)
      if (feed.changed.size > 0 && !feed.isDelivering) void this.#deliver(feed)
    }
  }

  /** Apart from ticks, which don't wait for it: what it finds is delivered by the next one. */
  #readLeaders(entry: Watched): void {
    const { topic } = entry
    if (topic.kind !== 'leaderboard' || entry.reading) return
    const { readLeaders, notices } = this.#options
    entry.reading = readLeaders(topic.key)
      .then(
        (state) => update(entry, state),
        (error) => {
          // An unreachable database is reported elsewhere.
          if (!(error instanceof NthError)) notices.fault(error)
          if (entry.state === undefined) entry.state = errorOf(error)
        },
      )
      .finally(() => {
        entry.readAt = performance.now()
        entry.reading = undefined
      })
  }

  async #deliver(feed: Feed): Promise<void> {
    const { changed } = feed
    feed.changed = new Set()
    feed.isDelivering = true
    try {
      await Promise.all([feed.onChanged(changed), this.#followPeriods(feed, changed)])
    } catch (error) {
      for (const watched of changed) feed.changed.add(watched)
      if (!(error instanceof NthError)) this.#options.notices.fault(error)
    }
    feed.isDelivering = false
  }

  /** @throws {NthError} UNAVAILABLE */
  async #readAll<Kind extends BatchedKind>(kind: Kind, due: readonly Watched[]): Promise<void> {
    const { read, notices } = this.#options
    const same = due.filter(({ topic }) => topic.kind === kind)
    for (let from = 0; from < same.length; from += MAX_KEYS) {
      const entries = same.slice(from, from + MAX_KEYS)
      // They were selected by their kind.
      const states = await read[kind](entries.map(({ topic }) => topic.key as KeyOf<Kind>))
      for (const [index, entry] of entries.entries()) {
        const state = states[index] ?? null
        if (state instanceof Error && !(entry.state instanceof Error)) notices.fault(state)
        update(entry, state)
      }
    }
  }

  /** Notes when a period of counters ends, in the time zones that they have now. */
  async #followPeriods({ periods, periodEnds }: Feed, watched: Iterable<Watched>): Promise<void> {
    if (periods.length === 0) return
    const { now, retentionIn } = this.#options
    const at = now().getTime()
    for (const entry of watched) {
      const { topic, state } = entry
      if (topic.kind !== 'counter' || !state || state instanceof Error) continue
      const definition = 'definition' in state ? state.definition : undefined
      const { timeZone } = definition ?? (await retentionIn(topic.key.namespace))
      if (!isKnownZone(timeZone)) continue
      const calendar = calendarOf(timeZone)
      periodEnds.set(entry, Math.min(...periods.map((period) => calendar.bucketAt(period, at).end)))
    }
  }
}

function update(entry: Watched, state: Watched['state']): void {
  const before = entry.state
  if (isState(before) && isState(state) && (isOlder(state, before) || !isChanged(before, state))) return
  if (before === state) return
  entry.state = state
  if (before === undefined || state instanceof Error) return
  for (const { changed } of entry.feeds) changed.add(entry)
}

function isState(state: Watched['state']): state is TopicState {
  return state != null && !(state instanceof Error)
}

async function isBusy(): Promise<boolean> {
  const before = performance.eventLoopUtilization()
  await pause(MEASURE_MS, undefined, { ref: false })
  return performance.eventLoopUtilization(before).utilization > BUSY
}

/** How many names topics count as. */
export function weightOf(topics: readonly Topic[]): number {
  return topics.reduce((sum, { kind }) => sum + (kind === 'leaderboard' ? MAX_LEADERS : 1), 0)
}

function topicText({ kind, key }: Topic): string {
  if (kind === 'counter') return `c${keyText(key)}`
  if (kind === 'leaderboard') return `l${joinNames(key.namespace, key.order, key.period ?? '')}`
  return kind === 'sequenceGroup' ? `g${sequenceGroupKeyText(key)}` : `r${key.token}`
}

/**
 * Whether two states of a topic differ in anything but their revision: the revision of a name without a row rises when other
 * names are deleted, and a row that was changed by hand may have its old revision.
 */
function isChanged(before: TopicState, after: TopicState): boolean {
  // States of one topic have the same properties.
  const names = Object.keys(after) as (keyof TopicState | 'revision')[]
  return names.some((name) => name !== 'revision' && !isDeepStrictEqual(after[name], before[name]))
}

/** Whether a state is older than one that was read before: it comes from a server that is behind. */
function isOlder(after: TopicState, before: TopicState): boolean {
  return 'revision' in after && 'revision' in before && after.revision < before.revision
}
