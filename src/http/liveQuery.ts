import { type ExecutionArgs, type ExecutionResult, execute } from 'graphql'
import type { Context } from '../graphql/context.ts'
import { selectedPeriods } from '../graphql/selections.ts'
import type { Notices } from '../operations/log.ts'
import { type Watched, weightOf } from '../repository/live.ts'
import { type ErrorCode, NthError, unavailable } from '../rules/errors.ts'
import { SharedOwner } from '../rules/turns.ts'
import type { CompiledOperation } from './documents.ts'
import { finalResult } from './errors.ts'
import type { Stream } from './stream.ts'

/** First events: all streams that join before their states are read share one execution. */
interface Opening {
  streams: Set<Stream>
  first: Promise<ExecutionResult>
}

interface LiveQueryOptions extends Pick<Context, 'nth' | 'gate' | 'caller'> {
  /** What its streams have in common, as a hash. */
  key: string
  /** Memory that it takes besides its document, in bytes. */
  bytes: number
  args: ExecutionArgs
  /** The same operation, if it could be compiled: an event takes 47 µs of processor time then, and else 78 (Node 20). */
  compiled: CompiledOperation | undefined
  notices: Notices
}

export type LiveQuery = ReturnType<typeof openLiveQuery>

/**
 * All streams with the same operation, variables and rights: each event is executed once, and sent to all of them. A
 * stream that is not ready collects what it misses, and gets its newest state when it is.
 */
export function openLiveQuery(options: LiveQueryOptions) {
  const { key, bytes, args, compiled, nth, gate, caller, notices } = options
  const owner = new SharedOwner()
  const streams = new Set<Stream>()
  const feed = nth.live.open({ onChanged, periods: selectedPeriods(args) })
  let opening: Opening | undefined

  function open(): Opening {
    const opened: Opening = { streams: new Set(), first: Promise.resolve({}) }
    const end = () => {
      if (opening === opened) opening = undefined
    }
    const watch: Context['watch'] = async (topics) => {
      const watched = await nth.live.watch(feed, topics)
      // These get what changes from now on. Streams that join later need a newer state.
      for (const stream of opened.streams) streams.add(stream)
      end()
      return watched
    }
    opened.first = run({ watch }).finally(end)
    return opened
  }

  async function run(part: Pick<Context, 'watch'>, rootValue?: readonly Watched[]): Promise<ExecutionResult> {
    // Errors of compiled code lack details.
    const quick =
      rootValue &&
      (await compiled?.execute({ nth, gate, caller, owner }, args.variableValues ?? undefined, rootValue))
    if (quick && !quick.errors) return quick
    const contextValue: Context = { nth, gate, caller, owner, ...part }
    return finalResult(await execute({ ...args, rootValue, contextValue }), false, notices)
  }

  /** The result, in JSON, with the newest states of what changed; undefined: none of it exists. */
  async function resultOf(changed: Iterable<Watched>): Promise<string | undefined> {
    const present = [...changed].filter(({ state }) => state !== null)
    if (present.length === 0) return undefined
    await gate.untilRoom(present.length, owner)
    const result = await run({}, present)
    const isUnread = result.errors?.some(
      ({ extensions }) => extensions.code === ('UNAVAILABLE' satisfies ErrorCode),
    )
    if (isUnread) throw unavailable('The changes could not be read.')
    return JSON.stringify(result)
  }

  async function onChanged(changed: ReadonlySet<Watched>): Promise<void> {
    const ready: Stream[] = []
    for (const stream of streams) {
      if (stream.state === 'ready') ready.push(stream)
      else for (const watched of changed) stream.missed.add(watched)
    }
    if (ready.length === 0) return
    const json = await resultOf(changed)
    if (json !== undefined) for (const stream of ready) stream.write(json, () => void catchUp(stream))
  }

  /** Sends what a stream has missed. What changes meanwhile is missed as well, so that nothing older follows. */
  async function catchUp(stream: Stream): Promise<void> {
    try {
      while (stream.missed.size > 0 && stream.state !== 'closed') {
        const { missed } = stream
        stream.missed = new Set()
        const json = await resultOf(missed)
        if (json !== undefined && !stream.write(json, () => void catchUp(stream))) return
      }
    } catch (error) {
      if (!(error instanceof NthError)) notices.fault(error)
      // The client connects again, and gets everything.
      stream.break()
    }
    if (stream.state === 'behind') stream.state = 'ready'
  }

  return {
    key,
    bytes,
    document: args.document,

    /** Whether it has streams, also such as wait for their first event. */
    isUsed: () => owner.members.size > 0,

    /** Returns the result for the first event of a stream. */
    join(stream: Stream): Promise<ExecutionResult> {
      owner.join(stream.owner)
      opening ??= open()
      opening.streams.add(stream)
      return opening.first
    },

    /** Sends the first event of a stream that was started, and then what changes. */
    serve(stream: Stream, first: ExecutionResult): void {
      if (stream.write(JSON.stringify(first), () => void catchUp(stream))) void catchUp(stream)
    },

    /** Whether a stream gets what changes. Otherwise its first event was refused, or there is nothing to watch. */
    isSent: (stream: Stream) => streams.has(stream),

    leave(stream: Stream): void {
      streams.delete(stream)
      owner.members.delete(stream.owner)
      opening?.streams.delete(stream)
    },

    /** How many names it watches. A leaderboard counts as many. */
    get size() {
      return weightOf(Array.from(feed.entries, ({ topic }) => topic))
    },

    close: () => nth.live.closeFeed(feed),
  }
}
