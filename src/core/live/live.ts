import { AsyncResource } from 'node:async_hooks'
import type { Retention } from '../counters/definition.ts'
import { errorOf, NthError, unavailable } from '../errors.ts'
import type { NamedOperation } from '../groupCommit/request.ts'
import { refusalMeasure } from '../measures.ts'
import type { Period } from '../time/calendar.ts'
import { createPace } from './pace.ts'
import { createReading, type ReadOptions } from './reading.ts'
import { type Topic, topicText, type Watched } from './topics.ts'
import { createTurns, type Turns } from './turns.ts'

export interface Watcher {
  /**
   * Called with the topics whose states changed, at most ten times a second, and not before the last call has ended. If
   * it throws, they are among those of the next call.
   */
  onChanged(changed: ReadonlySet<Watched>): Promise<void>
  /** Periods at whose end counters count as changed. */
  periods: readonly Period[]
}

export interface LiveOptions extends ReadOptions {
  /** Default retention of a namespace. */
  retentionIn: (namespace: string) => Promise<Retention>
  now: () => Date
}

/** Time from one read of everything that is watched to the next. */
const POLL_MS = 300
/** Maximum topics of a process. */
const MAX_TOPICS = 20_000

interface Entry extends Watched {
  readonly text: string
  readonly feeds: Set<Feed>
}

/** What a watcher watches. */
interface Feed {
  watcher: Watcher
  entries: Set<Entry>
  turns: Turns
  /** Of what changed, the watcher was not notified yet. */
  changed: Set<Watched>
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
  const readAll = createReading<Entry>({ read, notices }, (entry) => {
    for (const { changed } of entry.feeds) changed.add(entry)
  })
  const entries = new Map<string, Entry>()
  const feeds = new Set<Feed>()
  const marked = new Set<Entry>()
  /** Called with the error of the next tick that begins, if it has one. */
  let waiting: ((error?: Error) => void)[] = []
  let isRunning = false
  let isClosed = false
  let lastPoll = 0
  const pace = createPace()
  // Serves all, so it belongs to no request.
  const runForAll = AsyncResource.bind(run)

  function markTopic(topic: Topic): void {
    const entry = entries.get(topicText(topic))
    if (!entry) return
    marked.add(entry)
    pace.wake()
  }

  /** Ticks while anything is watched. */
  async function run(): Promise<void> {
    if (isRunning) return
    isRunning = true
    while ((entries.size > 0 || waiting.length > 0) && !isClosed) {
      await pace.untilDue(() => marked.size > 0 || isClosed, lastPoll + POLL_MS)
      const began = performance.now()
      await tick(began).catch(notices.fault)
      pace.ticked(began, performance.now())
    }
    isRunning = false
  }

  async function tick(began: number): Promise<void> {
    const isPoll = began >= lastPoll + POLL_MS
    const due = isPoll ? [...entries.values()] : [...marked]
    // Before the read: what is marked from now on is read again.
    marked.clear()
    const answered = waiting
    waiting = []
    try {
      await readAll(due)
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
      for (const watched of feed.turns.takeEnded(at)) feed.changed.add(watched)
      if (feed.changed.size > 0) deliveries.push(deliver(feed))
    }
    await Promise.all(deliveries)
  }

  async function deliver(feed: Feed): Promise<void> {
    const { changed, turns, watcher } = feed
    feed.changed = new Set()
    try {
      await Promise.all([watcher.onChanged(changed), turns.follow(changed, now().getTime())])
    } catch (error) {
      for (const watched of changed) feed.changed.add(watched)
      if (!(error instanceof NthError)) notices.fault(error)
    }
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
      const turns = createTurns(watcher.periods, retentionIn)
      const feed: Feed = { watcher, entries: new Set(), turns, changed: new Set() }
      feeds.add(feed)
      let isEnded = false
      return {
        /**
         * Watches topics, each once, besides those already watched. Returns them with states that were read after this
         * call.
         *
         * @throws {NthError} UNAVAILABLE if they can't be read, the watcher was closed, or the process would watch more
         *   than 20 000
         */
        async watch(topics: readonly Topic[]): Promise<Watched[]> {
          if (isEnded || isClosed) throw unavailable('The subscription has ended.')
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
          pace.wake()
          void runForAll()
          await isRead
          await turns.follow(watched, now().getTime())
          return watched
        },

        /** How many topics it watches. */
        get size() {
          return feed.entries.size
        },

        close(): void {
          isEnded = true
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
      pace.wake()
    },
  }
}
