import { readConfig } from '../src/config.ts'
import { MAX_ITEMS } from '../src/graphql/arguments.ts'
import {
  MAX_ALIAS_LENGTH,
  MAX_DEFINITIONS,
  MAX_DEPTH,
  MAX_FIELDS,
  MAX_LINES,
  MAX_REPEATS,
  MAX_SCHEMA_VALUES,
  MAX_TOKENS,
} from '../src/graphql/documentLimits.ts'
import { MAX_ERRORS_BELOW } from '../src/graphql/fieldError.ts'
import { MAX_NEIGHBORS } from '../src/graphql/leaderboard.ts'
import { DEFAULT_PAGE_SIZE } from '../src/graphql/lists.ts'
import { VALUE_BUDGET, VALUES_OF_A_BUCKET } from '../src/graphql/selections.ts'
import { MAX_TTL_S } from '../src/graphql/sequenceNumbers.ts'
import { MAX_SHOWN } from '../src/http/badges.ts'
import { MAX_BODY_BYTES, MAX_UNAUTHORIZED_BYTES, MAX_VALUES, MIN_BYTES_A_SECOND } from '../src/http/body.ts'
import { MAX_ID_LENGTH, MAX_OPERATIONS } from '../src/http/graphqlSocket.ts'
import { MAX_NAMES as MAX_WATCHED } from '../src/http/liveQueries.ts'
import { LIMITS, MAX_HEADER_BYTES, REQUESTS_SHARE, STREAMS_SHARE, UNREAD_SHARE } from '../src/http/server.ts'
import { MAX_FRAGMENTS } from '../src/http/sockets.ts'
import { MAX_LENGTH as MAX_TOKEN_LENGTH } from '../src/http/tokens.ts'
import { MAX_ITEMS as MAX_VARIABLE_ITEMS } from '../src/http/variables.ts'
import { MAX_CHANGES } from '../src/repository/counters.ts'
import { DEFAULT_BUCKETS, MAX_BUCKETS } from '../src/repository/history.ts'
import { HOLDS_KEPT_MS, KEPT_DAYS } from '../src/repository/jobs.ts'
import { MAX_LEADERS, MAX_TOPICS } from '../src/repository/live.ts'
import { MOST_GROUPS } from '../src/repository/sequenceDefinition.ts'
import { MAX_KEEP_DAYS, MAX_SEARCHED, MAX_SLOTS } from '../src/rules/counter.ts'
import { MAX_DIGITS, MAX_FORMAT_LENGTH } from '../src/rules/format.ts'
import { LONGEST_HOLD_MS, LONGEST_PAGE_HOLD_MS } from '../src/rules/holds.ts'
import { MAX_KEY_LENGTH } from '../src/rules/idempotency.ts'
import { PAST_LEADERBOARDS } from '../src/rules/leaderboards.ts'
import { MAX_NAME_LENGTH } from '../src/rules/names.ts'
import {
  MAX_GRANTS,
  MAX_NAMES,
  MAX_ORIGINS,
  MAX_PER_MINUTE,
  MIN_SUBJECT_LENGTH,
  PAGE_PREFIX,
} from '../src/rules/rights.ts'
import { MAX_BLOCK, MAX_LISTED, MAX_PAST_FORMATS } from '../src/rules/sequenceDefinition.ts'
import { MAX_SUBJECT_LENGTH } from '../src/rules/subjects.ts'
import { MAX_DOCUMENT_ID_LENGTH } from '../src/rules/trustedDocument.ts'

interface Limit {
  what: string
  value: string
  /** What happens beyond it. */
  beyond: string
  /** The arguments, fields and types whose pages have it, too. */
  of: readonly string[]
}

const defaults = readConfig({})
const PAGE_SUBJECT = MAX_SUBJECT_LENGTH - PAGE_PREFIX.length

/** A template whose numbers have their digits in groups. */
function withNumbers(texts: TemplateStringsArray, ...values: readonly number[]): string {
  const grouped = (value = 0) => String(value).replace(/\B(?=(\d{3})+$)/g, ' ')
  return texts.reduce((text, next, index) => text + grouped(values[index - 1]) + next)
}

/** All limits, with the values of the source: what has it, the value, what happens beyond it, and `of`. */
const TABLE = withNumbers`
## Names and texts
Name of a counter, sequence or namespace | 1 to ${MAX_NAME_LENGTH} characters | BAD_USER_INPUT | name names namespace changes
Name of a sequence group | 0 to ${MAX_NAME_LENGTH} characters | BAD_USER_INPUT | group
\`prefix\`, \`contains\` | 0 to ${MAX_NAME_LENGTH} characters | BAD_USER_INPUT | prefix contains
Subject | 1 to ${MAX_SUBJECT_LENGTH} characters; with a key for pages 1 to ${PAGE_SUBJECT}, and with \`onceOnly\` ${MIN_SUBJECT_LENGTH} to ${PAGE_SUBJECT} | BAD_USER_INPUT | subject
Idempotency key | 1 to ${MAX_KEY_LENGTH} printable ASCII characters | BAD_USER_INPUT | idempotencyKey
Label of an API key | 1 to ${MAX_NAME_LENGTH} characters | BAD_USER_INPUT | label
ID of a trusted document | 1 to ${MAX_DOCUMENT_ID_LENGTH} printable ASCII characters | BAD_USER_INPUT | documents documentId
Format of a sequence | 1 to ${MAX_FORMAT_LENGTH} characters | BAD_USER_INPUT | defineSequence
Digits to which a format pads | 1 to ${MAX_DIGITS} | BAD_USER_INPUT | defineSequence
Text in a badge | ${MAX_SHOWN} characters | It is cut, and ends with \`…\`. |
JSON Web Token | ${MAX_TOKEN_LENGTH} characters | UNAUTHENTICATED |

## Numbers
A number in an argument | -(2^53-1) to 2^53-1 | BAD_USER_INPUT | delta to nextValue changes
Value of a counter, number of a sequence, total of a period | -(2^53-1) to 2^53-1 | OUT_OF_RANGE | CounterChange Hold SequenceNumbers Reservation
\`slots\` of a counter | 1 to ${MAX_SLOTS} | BAD_USER_INPUT | defineCounter
\`keepDays\` | 1 to ${MAX_KEEP_DAYS} | BAD_USER_INPUT | defineCounter defineNamespace
Numbers of one \`nextInSequence\` | 1 to ${MAX_BLOCK} | BAD_USER_INPUT | count
Numbers of one \`nextInSequence\`, with \`cycle\` | 1 to ${MAX_LISTED}, and one cycle | BAD_USER_INPUT | count
Formats of a sequence that was used | ${MAX_PAST_FORMATS} | BAD_USER_INPUT | defineSequence
Sequence groups of a sequence that is redefined on a cluster | ${MOST_GROUPS} | BAD_USER_INPUT | defineSequence
\`maxCount\` of a grant | 1 to ${MAX_BLOCK} | BAD_USER_INPUT | grants
\`perMinute\` of a key | 1 to ${MAX_PER_MINUTE} | BAD_USER_INPUT | perMinute

## Lists in arguments
Changes of one \`incrementMany\`, \`hold\` or \`confirmHold\` | 1 to ${MAX_CHANGES} | BAD_USER_INPUT | changes
\`names\` | 1 to ${MAX_ITEMS} | BAD_USER_INPUT | names
\`ids\` | 0 to ${MAX_ITEMS} | BAD_USER_INPUT | ids
Trusted documents of a call, or of a key | 1 to ${MAX_ITEMS} | BAD_USER_INPUT | documents
Grants of a key | 1 to ${MAX_GRANTS} | BAD_USER_INPUT | grants
\`names\` of a grant | 1 to ${MAX_NAMES} | BAD_USER_INPUT | grants
Origins of a key | 1 to ${MAX_ORIGINS} | BAD_USER_INPUT | origins
Items in all variables | ${MAX_VARIABLE_ITEMS} | BAD_USER_INPUT |

## What one field returns
Items of a page | 0 to ${MAX_ITEMS}; ${DEFAULT_PAGE_SIZE} by default | BAD_USER_INPUT | first Namespace
Names that a page compares with \`contains\` | ${MAX_SEARCHED} | The page ends there, and has more after it. | contains Namespace
Periods of a \`history\` | 0 to ${MAX_BUCKETS}; ${DEFAULT_BUCKETS} by default | BAD_USER_INPUT | Counter
\`above\` and \`below\` of \`neighbors\` | 0 to ${MAX_NEIGHBORS} | BAD_USER_INPUT | Counter
\`first\` of a live leaderboard | 1 to ${MAX_LEADERS} | BAD_USER_INPUT | leaderboard
Leaderboards of a period that are kept | the current one and ${PAST_LEADERBOARDS} before it | The list is empty, and the place is null. | Counter Namespace
Numbers that a block lists | ${MAX_LISTED} | \`values\` and \`formattedValues\` are null, without an error. | SequenceNumbers

## One document
Tokens | ${MAX_TOKENS} | GRAPHQL_PARSE_FAILED |
Lines | ${MAX_LINES} | GRAPHQL_PARSE_FAILED |
Operations and fragments | ${MAX_DEFINITIONS} | GRAPHQL_PARSE_FAILED |
Fields, with fragments counted at each use | ${MAX_FIELDS} | GRAPHQL_VALIDATION_FAILED |
Levels of fields and fragments | ${MAX_DEPTH} | GRAPHQL_VALIDATION_FAILED |
Uses of one response name in one place | ${MAX_REPEATS} | GRAPHQL_VALIDATION_FAILED |
Alias | ${MAX_ALIAS_LENGTH} characters | GRAPHQL_VALIDATION_FAILED |
Values that an introspection returns | ${MAX_SCHEMA_VALUES} | GRAPHQL_VALIDATION_FAILED |

## One request
Body | ${MAX_BODY_BYTES} bytes | REQUEST_ENTITY_TOO_LARGE |
Body of a caller who may do nothing | ${MAX_UNAUTHORIZED_BYTES} bytes | REQUEST_ENTITY_TOO_LARGE |
Members and items of JSON in a body | ${MAX_VALUES} | BAD_USER_INPUT |
Headers, with the address | ${MAX_HEADER_BYTES} bytes | Status 431. |
Time for a request to arrive | ${LIMITS.arrivalMs / 1000} s | BAD_REQUEST, with the status 408 |
Bytes of a body a second, after ${LIMITS.graceMs / 1000} s | ${MIN_BYTES_A_SECOND} | BAD_REQUEST, with the status 408 |
Time for a body to arrive, of a caller who may do nothing | ${LIMITS.unauthorizedMs / 1000} s | BAD_REQUEST, with the status 408 |
Time for which a client reads nothing of its response | ${LIMITS.stallMs / 1000} s | It is disconnected. |
[Values in all lists](configuration.md#limits-of-a-request) | ${VALUE_BUDGET} | BAD_USER_INPUT |
Periods in all histories | about ${VALUE_BUDGET / VALUES_OF_A_BUCKET} | BAD_USER_INPUT |
Errors below the fields of an operation | ${MAX_ERRORS_BELOW} | Further fields are null, without an error. |

## One caller
Changes a minute with a key for pages, from one address | ${defaults.access.browserPerMinute ?? 0} by default (\`NTH_BROWSER_PER_MINUTE\`) | RATE_LIMITED |
Changes a minute without a key, from one address | none by default (\`NTH_ANONYMOUS_PER_MINUTE\`) | RATE_LIMITED |
Connections from one address | ${defaults.maxConnectionsPerAddress} by default (\`NTH_MAX_CONNECTIONS_PER_ADDRESS\`) | RATE_LIMITED |
Streams and WebSockets with one key, from one address | ${defaults.maxStreams} by default (\`NTH_MAX_STREAMS_PER_CLIENT\`) | RATE_LIMITED |
Names that these watch | ${MAX_WATCHED}, of which a leaderboard counts as ${MAX_LEADERS} | RATE_LIMITED |
Names or ids of one subscription | 1 to ${MAX_ITEMS} | BAD_USER_INPUT |
Subscriptions of a WebSocket | ${MAX_OPERATIONS} | RATE_LIMITED |
Id of an operation of a WebSocket | ${MAX_ID_LENGTH} characters | It is closed with 4400. |
Message of a WebSocket | ${MAX_BODY_BYTES} bytes in ${MAX_FRAGMENTS} fragments | It is closed. |
Time for \`connection_init\` | ${LIMITS.initMs / 1000} s | It is closed with 4408. |

## One process
Changes that wait | ${defaults.maxPending} by default (\`NTH_MAX_PENDING\`) | UNAVAILABLE |
Time for which a change or a read waits | ${defaults.writeTimeoutMs / 1000} s by default (\`NTH_WRITE_TIMEOUT_MS\`) | UNAVAILABLE, or OUTCOME_UNKNOWN |
Names that all subscriptions watch | ${MAX_TOPICS} | UNAVAILABLE |
Memory of requests in flight | 1/${1 / REQUESTS_SHARE} of the heap | UNAVAILABLE |
Memory of subscriptions | 1/${1 / STREAMS_SHARE} of the heap | UNAVAILABLE or RATE_LIMITED |
Memory of unread responses | 1/${1 / UNREAD_SHARE} of the heap | The clients with the most unread data are disconnected. |

## How long things are kept
Idempotency key, after its first use | ${defaults.keyTtlMs / 3_600_000} hours by default (\`NTH_IDEMPOTENCY_TTL_HOURS\`) | A repeat is another change. | idempotencyKey
\`ttlSeconds\` | 1 to ${MAX_TTL_S} | BAD_USER_INPUT | ttlSeconds
\`ttlSeconds\` of a hold, with a key for pages | 1 to ${LONGEST_PAGE_HOLD_MS / 1000} | FORBIDDEN | hold extendHold
A hold, with its extensions | ${LONGEST_HOLD_MS / 3_600_000} hours; ${LONGEST_PAGE_HOLD_MS / 1000} s if a key for pages made it | It expires then. | extendHold
A hold, after it has expired, or would have | ${HOLDS_KEPT_MS / 86_400_000} days | NOT_FOUND | Hold confirmHold
A reservation that was not confirmed, after its number was reissued | ${KEPT_DAYS} days | NOT_FOUND | Reservation
`

/** All limits, by what has them. */
export const limits = new Map(
  TABLE.split(/^## /m)
    .slice(1)
    .map((group) => {
      const [title = '', ...rows] = group.trim().split('\n')
      return [title, rows.map(limitIn)] as const
    }),
)

function limitIn(row: string): Limit {
  const [what = '', value = '', beyond = '', of = ''] = row.split(/ ?\| ?/)
  return { what, value, beyond, of: of.split(' ') }
}

/** The limits that are about some arguments, fields or types. */
export function limitsOf(names: readonly string[]): Limit[] {
  return [...limits.values()].flat().filter(({ of }) => of.some((name) => names.includes(name)))
}
