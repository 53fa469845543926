import { AsyncResource } from 'node:async_hooks'
import { performance } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import type { Retention } from '../counters/definition.ts'
import { errorOf, NthError, unavailable } from '../errors.ts'
import type { NamedOperation } from '../groupCommit/request.ts'
import { refusalMeasure } from '../measures.ts'
import type { Notices } from '../notices.ts'
import { calendarOf, type Period } from '../time/calendar.ts'
import { isChanged, isOlder, type Topic, type TopicState, topicText, type Watched } from './topics.ts'

export interface LiveOptions {
  /** Reads topics of one kind; undefined where there is none. */
  read: {
    [Kind in Topic['kind']]: (keys: readonly KeyOf<Kind>[]) => Promise<readonly (TopicState | undefined)[]>
  }
  /** Default retention of a namespace. */
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
  notices: Notices
}

type KeyOf<Kind> = Extract<Topic, { kind: Kind }>['key']

export interface Watcher {
  /**
   * Called with the topics whose states changed, at most ten times a second, and not before the last call has ended. If
   * it throws, they are among those of the next call.
   */
  onChanged(changed: ReadonlySet<Watched>): Promise<void>
  /** Periods at whose end counters count as changed: their current total and their history differ then. */
  periods: readonly Period[]
}

/** Maximum topics of a process. */
const MAX_TOPICS = 20_000
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
/** Utilisation of the event loop from which a process is busy, and how often it is measured. */
const BUSY = 0.5
const MEASURE_MS = 20

interface Entry extends Watched {
  readonly text: string
  readonly feeds: Set<Feed>
}

/** What a watcher watches. */
interface Feed {
  watcher: Watcher
  entries: Set<Entry>
  /** Of what changed, the watcher was not notified yet. */
  changed: Set<Watched>
  /** When the first of the watcher's periods ends in a counter, in milliseconds since 1970. */
  periodEnds: Map<Watched, number>
  isClosed: boolean
}

export type Live = ReturnType<typeof openLive>

/**
 * Watches counters, sequence groups and reservations. Whoever changes them, their states are read from the database, in
 * ticks: a tick reads what was marked since the last one, and every 300 ms all that is watched. This process marks what
 * its flushes change; the poll finds what other processes changed, what was changed by hand, and what expired.
 *
 * All states come from these reads, one tick after another, so watchers never see an older one after a newer one. While
 * nothing is watched, nothing is read.
 */
export function openLive({ read, retentionIn, now, notices }: LiveOptions) {
  const entries = new Map<string, Entry>()
  const feeds = new Set<Feed>()
  const marked = new Set<Entry>()
  /** Called with the error of the next tick that begins, if it has one. */
  let waiting: ((error?: Error) => void)[] = []
  let isRunning = false
  let isClosed = false
  // Instants on the clock of `performance.now()`. The next tick is allowed from the first one on; in a busy process, later.
  let nextTick = { earliest: 0, latest: 0 }
  let lastPoll = 0
  /** Ends the wait for something to do. */
  let sleep = new AbortController()
  // Serves all, so it belongs to no request.
  const runForAll = AsyncResource.bind(run)

  /** Ticks while anything is watched. */
  async function run(): Promise<void> {
    if (isRunning) return
    isRunning = true
    while ((entries.size > 0 || waiting.length > 0) && !isClosed) {
      await untilDue()
      const began = performance.now()
      await tick(began).catch(notices.fault)
      const ended = performance.now()
      const latest = ended + Math.min(PAUSE_FACTOR * (ended - began), MAX_PAUSE_MS)
      nextTick = { earliest: began + TICK_MS, latest }
    }
    isRunning = false
  }

  /** Waits until the next tick is allowed, and then until something is marked, or the next poll. */
  async function untilDue(): Promise<void> {
    await pause(Math.max(0, nextTick.earliest - performance.now()), undefined, { ref: false })
    while (performance.now() < nextTick.latest && (await isBusy()));
    if (marked.size > 0 || isClosed) return
    sleep = new AbortController()
    const restMs = Math.max(0, lastPoll + POLL_MS - performance.now())
    await pause(restMs, undefined, { ref: false, signal: sleep.signal }).catch(() => undefined)
  }

  async function tick(began: number): Promise<void> {
    const isPoll = began >= lastPoll + POLL_MS
    const due = isPoll ? [...entries.values()] : [...marked]
    // Before the read: what is marked from now on is read again.
    marked.clear()
    const answered = waiting
    waiting = []
    try {
      await readAll('counter', due)
      await readAll('sequenceGroup', due)
      await readAll('reservation', due)
    } catch (error) {
      for (const entry of due) marked.add(entry)
      for (const answer of answered) answer(errorOf(error))
      // An unreachable database is reported elsewhere.
      if (!(error instanceof NthError)) throw error
      return
    }
    if (isPoll) lastPoll = began
    for (const answer of answered) answer()
    const at = now().getTime()
    const deliveries: Promise<void>[] = []
    for (const feed of feeds) {
      for (const [watched, end] of feed.periodEnds) if (end <= at) feed.changed.add(watched)
      if (feed.changed.size > 0) deliveries.push(deliver(feed))
    }
    await Promise.all(deliveries)
  }

  async function deliver(feed: Feed): Promise<void> {
    const { changed, watcher } = feed
    feed.changed = new Set()
    try {
      await Promise.all([watcher.onChanged(changed), followPeriods(feed, changed)])
    } catch (error) {
      for (const watched of changed) feed.changed.add(watched)
      if (!(error instanceof NthError)) notices.fault(error)
    }
  }

  /** @throws {NthError} UNAVAILABLE */
  async function readAll<Kind extends Topic['kind']>(kind: Kind, due: readonly Entry[]): Promise<void> {
    const same = due.filter(({ topic }) => topic.kind === kind)
    for (let from = 0; from < same.length; from += MAX_KEYS)
      await readTogether(kind, same.slice(from, from + MAX_KEYS))
  }

  async function readTogether<Kind extends Topic['kind']>(kind: Kind, same: readonly Entry[]): Promise<void> {
    try {
      // They were selected by their kind.
      const states = await read[kind](same.map(({ topic }) => topic.key as KeyOf<Kind>))
      for (const [index, entry] of same.entries()) update(entry, states[index] ?? null)
    } catch (error) {
      if (error instanceof NthError) throw error
      // One that can't be read doesn't stop the others.
      if (same.length > 1) for (const entry of same) await readTogether(kind, [entry])
      for (const entry of same.length === 1 ? same : []) {
        if (!(entry.state instanceof Error)) notices.fault(error)
        entry.state = errorOf(error)
      }
    }
  }

  function update(entry: Entry, state: TopicState | null): void {
    const before = entry.state
    const isState = before != null && !(before instanceof Error)
    if (isState && state && (isOlder(state, before) || !isChanged(before, state))) return
    if (before === state) return
    entry.state = state
    if (before !== undefined) for (const { changed } of entry.feeds) changed.add(entry)
  }

  /** Notes when a period of counters ends, in the time zones that they have now. */
  async function followPeriods({ watcher, periodEnds }: Feed, watched: Iterable<Watched>): Promise<void> {
    if (watcher.periods.length === 0) return
    const at = now().getTime()
    for (const entry of watched) {
      const { topic, state } = entry
      if (topic.kind !== 'counter' || !state || state instanceof Error) continue
      const definition = 'definition' in state ? state.definition : undefined
      const { timeZone } = definition ?? (await retentionIn(topic.key.namespace))
      const calendar = calendarOf(timeZone)
      periodEnds.set(entry, Math.min(...watcher.periods.map((period) => calendar.bucketAt(period, at).end)))
    }
  }

  function markTopic(topic: Topic): void {
    const entry = entries.get(topicText(topic))
    if (!entry) return
    marked.add(entry)
    sleep.abort()
  }

  function remove(entry: Entry, feed: Feed): void {
    entry.feeds.delete(feed)
    if (entry.feeds.size > 0) return
    entries.delete(entry.text)
    marked.delete(entry)
  }

  return {
    /** Marks what was changed, so that it is read in the next tick. */
    mark(operations: readonly NamedOperation[]): void {
      if (entries.size === 0) return
      for (const { kind, name, operation } of operations) {
        // By their kind, names are those of counters or of sequence groups.
        markTopic({ kind, key: name } as Topic)
        if ('token' in operation) markTopic({ kind: 'reservation', key: { token: operation.token } })
      }
    },

    /** Starts to watch for a watcher. */
    open(watcher: Watcher) {
      const feed: Feed = {
        watcher,
        entries: new Set(),
        changed: new Set(),
        periodEnds: new Map(),
        isClosed: false,
      }
      feeds.add(feed)
      return {
        /**
         * Watches topics, each once, besides those already watched. Returns them with states that were read after this
         * call.
         *
         * @throws {NthError} UNAVAILABLE if they can't be read, the watcher was closed, or the process would watch more
         *   than 20 000
         */
        async watch(topics: readonly Topic[]): Promise<Watched[]> {
          if (feed.isClosed || isClosed) throw unavailable('The subscription has ended.')
          const texts = topics.map(topicText)
          const added = texts.filter((text) => !entries.has(text)).length
          if (entries.size + added > MAX_TOPICS) {
            refusalMeasure.publish('watched names')
            throw unavailable(`This process already watches ${entries.size} of at most ${MAX_TOPICS} names.`)
          }
          const watched = topics.map((topic, index) => {
            const text = texts[index] ?? ''
            const entry = entries.get(text) ?? { topic, text, state: undefined, feeds: new Set() }
            entries.set(text, entry)
            entry.feeds.add(feed)
            feed.entries.add(entry)
            marked.add(entry)
            return entry
          })
          const isRead = new Promise<void>((resolve, reject) => {
            waiting.push((error) => (error ? reject(error) : resolve()))
          })
          sleep.abort()
          void runForAll()
          await isRead
          await followPeriods(feed, watched)
          return watched
        },

        /** How many topics it watches. */
        get size() {
          return feed.entries.size
        },

        close(): void {
          feed.isClosed = true
          feeds.delete(feed)
          for (const entry of feed.entries) remove(entry, feed)
        },
      }
    },

    /** How many different topics are watched. */
    get size() {
      return entries.size
    },

    close(): void {
      isClosed = true
      for (const answer of waiting) answer(unavailable('Nth is shutting down.'))
      sleep.abort()
    },
  }
}

async function isBusy(): Promise<boolean> {
  const before = performance.eventLoopUtilization()
  await pause(MEASURE_MS, undefined, { ref: false })
  return performance.eventLoopUtilization(before).utilization > BUSY
}
