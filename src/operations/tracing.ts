import { AsyncLocalStorage } from 'node:async_hooks'
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel'
import {
  type Context,
  context,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import { FAILURE_LEVELS } from './log.ts'
import { changeChannel, flushTrace, operationTrace, type RequestMeasure, requestTrace } from './measures.ts'

/*
 * Spans of OpenTelemetry, of what the core, HTTP and mysql2 publish on tracing channels. The present span is kept here, not
 * as OpenTelemetry's active one: a subscriber of a channel can't run the work.
 */

/** What mysql2 publishes of a text of statements. */
interface QueryWork {
  query: string
  database: string
  serverAddress: string
  serverPort: number | undefined
}

/** A new span, and the context of what happens within it; undefined: it isn't sampled, and neither is what happens. */
interface Begun {
  span: Span
  within: Context | undefined
}

/** Maximum links of a flush: it may serve thousands of calls. */
const MAX_LINKS = 32
/** Maximum length of the name of an operation, which callers choose. */
const MAX_NAME = 100
const EXPORT_LIMIT_MS = 2000

/** Makes spans if a provider is registered by now; else nothing is subscribed, and nothing is published. */
export function openTracing(version: string) {
  const provider = registeredProvider()
  if (!provider) return { close: async () => undefined }
  const tracer = provider.getTracer('nth', version)
  const contexts = new AsyncLocalStorage<Context | undefined>()
  /** Contexts of the sampled callers whose changes wait for a flush. */
  const callers = new WeakMap<object, Context>()
  const closers: (() => void)[] = []

  /** Makes a span of each piece of work of a channel for which `begin` returns one. */
  function follow<Work extends object>(
    { start, asyncEnd }: TracingChannel<unknown, Work>,
    begin: (work: Work) => Begun | undefined,
    finish?: (span: Span, work: Work & { error?: unknown }) => void,
  ): void {
    const spans = new WeakMap<object, Span>()
    start.bindStore(contexts, (work) => {
      const begun = begin(work)
      if (begun) spans.set(work, begun.span)
      return begun?.within
    })
    const onEnd = (work: unknown) => {
      // The message of its channel.
      const span = spans.get(work as Work)
      if (span) finish?.(span, work as Work)
    }
    asyncEnd.subscribe(onEnd)
    closers.push(() => {
      start.unbindStore(contexts)
      asyncEnd.unsubscribe(onEnd)
    })
  }

  function begun(name: string, options: SpanOptions, parent: Context | undefined): Begun | undefined {
    if (!parent) return undefined
    const span = tracer.startSpan(name, options, parent)
    const isSampled = (span.spanContext().traceFlags & TraceFlags.SAMPLED) !== 0
    return { span, within: isSampled ? trace.setSpan(parent, span) : undefined }
  }

  follow(requestTrace, ({ request: { method = '', headers }, response, note }) => {
    const active = context.active()
    const parent = trace.getSpan(active) ? active : propagation.extract(ROOT_CONTEXT, headers)
    const attributes = { 'http.request.method': method, 'http.route': '/graphql' }
    const request = begun(`${method} /graphql`, { kind: SpanKind.SERVER, attributes }, parent)
    // The response was sent, or its connection has ended.
    response.once('close', () => {
      request?.span.setAttribute('nth.request.id', note.id)
      if (response.headersSent) request?.span.setAttribute('http.response.status_code', response.statusCode)
      // Other listeners of the same event may still find out more.
      queueMicrotask(() => request && describe(request.span, note).end())
    })
    return request
  })

  follow(
    operationTrace,
    () => begun('operation', {}, contexts.getStore()),
    (span, { note }) => {
      if (note.operation) span.updateName(note.operation)
      describe(span, note).end()
    },
  )

  const onChange = (request: unknown) => {
    const caller = contexts.getStore()
    // The channel's messages are requests.
    if (caller) callers.set(request as object, caller)
  }
  changeChannel.subscribe(onChange)
  closers.push(() => changeChannel.unsubscribe(onChange))

  follow(
    flushTrace,
    ({ calls }) => {
      // The flush is in the trace of the first sampled caller, so that this trace is whole, with links to the other callers.
      const [first, ...others] = calls.flatMap(({ request }) => callers.get(request) ?? [])
      const contexts = others.slice(0, MAX_LINKS).flatMap((caller) => trace.getSpanContext(caller) ?? [])
      const links = contexts.map((context) => ({ context }))
      return begun('flush', { links, attributes: { 'nth.flush.calls': calls.length } }, first)
    },
    (span) => span.end(),
  )

  // Published by mysql2.
  for (const command of ['query', 'execute'])
    follow(
      tracingChannel<unknown, QueryWork>(`mysql2:${command}`),
      ({ query, database, serverAddress, serverPort }) => {
        const parent = contexts.getStore()
        // Work that goes on when its operation has ended, such as a copy to the leaderboard, isn't part of it.
        if (!parent || !trace.getSpan(parent)?.isRecording()) return undefined
        // No more of it: names of counters are part of the text. On MariaDB, a time limit stands before a select.
        const operation =
          /^\s*(?:set statement \S+ = \S+ \/ 1000 for )?(\w+)/.exec(query)?.[1]?.toUpperCase() ?? ''
        const attributes = {
          'db.system.name': 'mysql',
          'db.namespace': database,
          'db.operation.name': operation,
          'server.address': serverAddress,
          ...(serverPort !== undefined && { 'server.port': serverPort }),
        }
        return begun(`${operation} ${database}`, { kind: SpanKind.CLIENT, attributes }, parent)
      },
      (span, { error }) => {
        if (error instanceof Error) {
          const { code = error.name } = error as NodeJS.ErrnoException
          span.setAttribute('error.type', code).setStatus({ code: SpanStatusCode.ERROR })
        }
        span.end()
      },
    )

  return {
    /** Makes no more spans, and waits a moment until the last ones are exported. */
    async close(): Promise<void> {
      for (const close of closers.splice(0)) close()
      await exported(provider)
    },
  }
}

/** The provider that was registered in this process; undefined: none. */
function registeredProvider(): TracerProvider | undefined {
  const provider = trace.getTracerProvider()
  // The proxy may be of another copy of the API, the SDK's copy.
  const delegate = 'getDelegate' in provider ? (provider as ProxyTracerProvider).getDelegate() : provider
  const none = new ProxyTracerProvider().getDelegate()
  return delegate === none ? undefined : delegate
}

function describe(span: Span, { operation, operationName, code }: RequestMeasure): Span {
  if (operation) span.setAttribute('graphql.operation.type', operation)
  if (operationName !== undefined)
    span.setAttribute('graphql.operation.name', operationName.slice(0, MAX_NAME))
  if (code === undefined) return span
  span.setAttribute('error.type', code)
  return code in FAILURE_LEVELS ? span.setStatus({ code: SpanStatusCode.ERROR }) : span
}

/** Exports what a provider holds back, if it can: the process may end next. */
async function exported(provider: TracerProvider): Promise<void> {
  // The SDK's providers have it.
  const { forceFlush } = provider as { forceFlush?: () => Promise<void> }
  const limit = new Promise((resolve) => setTimeout(resolve, EXPORT_LIMIT_MS).unref())
  await Promise.race([forceFlush?.call(provider).catch(() => undefined), limit])
}
