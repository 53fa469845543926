import { type ExecutionArgs, type ExecutionResult, execute } from 'graphql'
import type { Notices } from '../core/notices.ts'
import type { Context } from '../graphql/context.ts'
import { reportedErrors } from '../graphql/fieldError.ts'
import { selectedPeriods } from '../graphql/selections.ts'
import { untilRoom } from '../operations/ticks.ts'
import type { Watched } from '../repository/live.ts'
import { type ErrorCode, NthError, unavailable } from '../rules/errors.ts'
import type { CompiledOperation } from './compiledOperations.ts'
import { faultIn, maskError } from './errors.ts'
import { nextEvent, type Stream } from './live/stream.ts'

/** First events: all streams that join before their states are read share one execution. */
interface Opening {
  streams: Set<Stream>
  first: Promise<FirstResult>
}

/** `isWatching`: there is something to watch; otherwise it was refused, or needs no more than this result. */
type FirstResult = ExecutionResult & { isWatching: boolean }

interface LiveQueryOptions extends Pick<Context, 'nth' | 'caller'> {
  args: ExecutionArgs
  /** The same operation, if it could be compiled. */
  compiled: CompiledOperation | undefined
  notices: Notices
}

export type LiveQuery = ReturnType<typeof openLiveQuery>

/**
 * All streams with the same operation, variables and rights: each event is executed once, and sent to all of them. A
 * stream that is not ready collects what it misses, and gets its newest state when it is.
 */
export function openLiveQuery({ args, compiled, nth, caller, notices }: LiveQueryOptions) {
  const streams = new Set<Stream>()
  const feed = nth.live.open({ onChanged, periods: selectedPeriods(args) })
  let opening: Opening | undefined

  function open(): Opening {
    const own: Opening = { streams: new Set(), first: Promise.resolve({ isWatching: false }) }
    let isWatching = false
    const watch: Context['watch'] = async (topics) => {
      const watched = await nth.live.watch(feed, topics)
      isWatching = true
      // These get what changes from now on. Those that join later need a newer state.
      for (const stream of own.streams) streams.add(stream)
      end(own)
      return watched
    }
    own.first = run({ watch })
      .then((result) => ({ ...result, isWatching }))
      .finally(() => end(own))
    return own
  }

  function end(ended: Opening): void {
    if (opening === ended) opening = undefined
  }

  async function run(own: Pick<Context, 'watch'>, rootValue?: readonly Watched[]): Promise<ExecutionResult> {
    // Errors of compiled code lack details.
    const quick =
      rootValue && (await compiled?.execute({ nth, caller }, args.variableValues ?? undefined, rootValue))
    if (quick && !quick.errors) return quick
    const contextValue: Context = { nth, caller, ...own }
    const result = await execute({ ...args, rootValue, contextValue })
    if (!result.errors) return result
    for (const error of result.errors) {
      const fault = faultIn(error)
      if (fault !== undefined) notices.fault(fault)
    }
    return { ...result, errors: reportedErrors(result.errors).map(maskError) }
  }

  /** The event with the newest states of what changed; undefined: none of it exists. */
  async function eventOf(changed: Iterable<Watched>): Promise<string | undefined> {
    const present = [...changed].filter(({ state }) => state !== null)
    if (present.length === 0) return undefined
    await untilRoom(present.length)
    const result = await run({}, present)
    const isUnread = result.errors?.some(
      ({ extensions }) => extensions.code === ('UNAVAILABLE' satisfies ErrorCode),
    )
    if (isUnread) throw unavailable('What changed could not be read.')
    return nextEvent(result)
  }

  async function onChanged(changed: ReadonlySet<Watched>): Promise<void> {
    const ready: Stream[] = []
    for (const stream of streams) {
      if (stream.state === 'ready') ready.push(stream)
      else for (const watched of changed) stream.missed.add(watched)
    }
    if (ready.length === 0) return
    const event = await eventOf(changed)
    if (event !== undefined) for (const stream of ready) stream.write(event, () => void catchUp(stream))
  }

  /** Sends what a stream has missed. What changes meanwhile is missed as well, so that nothing older follows. */
  async function catchUp(stream: Stream): Promise<void> {
    try {
      while (stream.missed.size > 0 && stream.state !== 'closed') {
        const { missed } = stream
        stream.missed = new Set()
        const event = await eventOf(missed)
        if (event !== undefined && !stream.write(event, () => void catchUp(stream))) return
      }
    } catch (error) {
      if (!(error instanceof NthError)) notices.fault(error)
      // The client connects again, and gets everything.
      stream.break()
    }
    if (stream.state === 'behind') stream.state = 'ready'
  }

  return {
    /** Returns the result for the first event of a stream. */
    join(stream: Stream): Promise<FirstResult> {
      opening ??= open()
      opening.streams.add(stream)
      return opening.first
    },

    /** Sends the first event of a stream that was started, and then what changes. */
    serve(stream: Stream, first: ExecutionResult): void {
      if (stream.write(nextEvent(first), () => void catchUp(stream))) void catchUp(stream)
    },

    leave(stream: Stream): void {
      streams.delete(stream)
      opening?.streams.delete(stream)
    },

    /** How many names it watches. */
    get size() {
      return feed.entries.size
    },

    close: () => nth.live.closeFeed(feed),
  }
}
