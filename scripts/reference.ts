import {
  astFromValue,
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLNamedType,
  type GraphQLType,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isIntrospectionType,
  isListType,
  isObjectType,
  isScalarType,
  isSpecifiedScalarType,
  OperationTypeNode,
  print,
} from 'graphql'
import { schema } from '../src/graphql/schema.ts'
import { type ErrorCode, errorCodes } from '../src/rules/errors.ts'
import { limits, limitsOf } from './limits.ts'

/** A field of operations, which has a page of its own. */
export interface FieldPage {
  kind: OperationTypeNode
  field: GraphQLField<unknown, unknown>
  /** Of its file, without `.md`. */
  name: string
}

const KINDS = { mutation: 'Mutations', query: 'Queries', subscription: 'Subscriptions' }

const { MUTATION, QUERY, SUBSCRIPTION } = OperationTypeNode

export const fieldPages: readonly FieldPage[] = [MUTATION, QUERY, SUBSCRIPTION].flatMap((kind) =>
  Object.values(schema.getRootType(kind)?.getFields() ?? {}).map((field) => ({
    kind,
    field,
    // Some have the name of a query.
    name: kind === SUBSCRIPTION ? `subscription-${field.name}` : field.name,
  })),
)

/** What a repeat of a mutation does without an idempotency key, unless it is another change. */
const SAME = 'A repeat returns the same result.'
const AGAIN = 'A repeat sets the same definition again, also over one that was set in between.'
const REPEATS: Record<string, string> = {
  uncount: 'Without a key, a repeat returns null, as the subject has not counted any more.',
  resetAll: 'A repeat sets the counters again.',
  defineCounter: AGAIN,
  defineSequence: AGAIN,
  defineNamespace: AGAIN,
  deleteCounter: 'A repeat also deletes what was created in between.',
  deleteSequence: 'A repeat also deletes what was created in between.',
  confirmReservation: SAME,
  releaseReservation: SAME,
  confirmHold: SAME,
  releaseHold: SAME,
  extendHold: 'A repeat counts `ttlSeconds` from its own time.',
  createApiKey: 'A repeat creates another key.',
  revokeApiKey: SAME,
  addTrustedDocuments: 'A repeat changes nothing, and returns the same result.',
  removeTrustedDocument: 'A repeat fails with NOT_FOUND.',
}

/** Mutations whose changes are not counts: they are sent again, and never OUTCOME_UNKNOWN. */
const SETTINGS = [
  'defineNamespace',
  'createApiKey',
  'revokeApiKey',
  'addTrustedDocuments',
  'removeTrustedDocument',
]

/** What mutations return besides their own results: its state, as in `src/graphql/rights.ts`, needs a right of its own. */
const STATES = ['Counter', 'Sequence', 'SequenceGroup']
const READ_STATE =
  ' To select the state of what it returns, as opposed to its definition, it also needs READ.'

/** An error of a field, with the message that a server sent for it. */
export interface FieldError {
  code: ErrorCode
  message: string
}

/** The page of a field. `example`: what stands below the last heading. */
export function pageOf(page: FieldPage, errors: readonly FieldError[], example: string): string {
  const { kind, field } = page
  const { scope, covers } = field.extensions.right ?? {}
  const right = scope
    ? `It needs the right ${scopeLink(scope)} on ${prose(covers)}.`
    : 'Everyone may call it.'
  const isState = kind === MUTATION && STATES.includes(getNamedType(field.type).name)
  const limits = limitsOf([field.name, ...field.args.map(({ name }) => name), getNamedType(field.type).name])
  return `${[
    `# ${titleOf(page)}`,
    prose(field.description),
    `A [${kind}](README.md#${KINDS[kind].toLowerCase()}). ${right}${isState ? READ_STATE : ''}`,
    field.args.length > 0 && `## Arguments\n\n${argumentTable(field.args)}`,
    `## Result\n\n${resultOf(field)}`,
    kind === MUTATION && `## Repeats\n\n${repeatsOf(field)}`,
    `## Errors\n\n${errorsOf(page, errors)}`,
    limits.length > 0 && `## Limits\n\n${limitTable(limits)}`,
    `## Example\n\n${example.trim()}`,
  ]
    .filter(Boolean)
    .join('\n\n')}\n`
}

const titleOf = ({ kind, field }: FieldPage) =>
  kind === SUBSCRIPTION ? `Subscription: ${field.name}` : field.name

function argumentTable(args: readonly (GraphQLArgument | GraphQLInputField)[]): string {
  const rows = args.map(({ name, type, defaultValue, description }) => {
    const value = astFromValue(defaultValue, type)
    return [`\`${name}\``, typeLink(type, value ? ` = ${print(value)}` : ''), prose(description)]
  })
  return table(['Argument', 'Type', 'Meaning'], rows)
}

function resultOf({ type }: GraphQLField<unknown, unknown>): string {
  const named = getNamedType(type)
  const fields = isObjectType(named) || isInterfaceType(named) ? Object.values(named.getFields()) : []
  const list = isListType(type) ? ', a list' : ''
  return `${typeLink(type)}${list}. It is null if there is an [error](../errors.md).\n\n${fieldTable(named, fields)}`
}

function fieldTable(owner: GraphQLNamedType, fields: readonly GraphQLField<unknown, unknown>[]): string {
  const rows = fields.map(({ name, type, description, args, extensions: { right } }) => {
    const link =
      args.length > 0 ? `[\`${name}\`](types.md#${`${owner.name}${name}`.toLowerCase()})` : `\`${name}\``
    const needs = right?.scope ? ` It needs ${scopeLink(right.scope)} on ${prose(right.covers)}.` : ''
    return [link, typeLink(type), prose(description) + needs]
  })
  return table(['Field', 'Type', 'Meaning'], rows)
}

function repeatsOf({ name, args, type }: GraphQLField<unknown, unknown>): string {
  const has = (argument: string) => args.some((other) => other.name === argument)
  if (!has('idempotencyKey')) return `It takes no idempotency key. ${prose(REPEATS[name])}`
  const result = getNamedType(type)
  const fields = isObjectType(result) ? Object.keys(result.getFields()) : []
  const withFlag = fields
    .filter((field) => /^(replayed|already\w+)$/.test(field))
    .map((field) => `, with \`${field}: true\``)
  const isReplayed = fields.includes('replayed')
  const returned = isReplayed
    ? `returns the first result${withFlag.at(-1)}`
    : `returns the same \`${result.name}\`, in its current state`
  const counts = has('subject') && name !== 'uncount'
  return [
    `A repeat with the same \`idempotencyKey\` is not applied again: it ${returned}.`,
    counts && `Another call for the same \`subject\` returns the first result${withFlag[0]}.`,
    REPEATS[name] ?? `Without a key${counts ? ' and a subject' : ''}, a repeat is another change.`,
    '[What counts as a repeat](../exactly-once.md#what-counts-as-a-repeat)',
  ]
    .filter(Boolean)
    .join(' ')
}

/** The codes that a field may have for what its kind is. */
function generalCodes({ kind, field }: FieldPage): ErrorCode[] {
  const isMutation = kind === MUTATION
  const needsRight = field.extensions.right?.scope !== undefined
  const codes: Partial<Record<ErrorCode, boolean>> = {
    BAD_USER_INPUT: field.args.length > 0,
    UNAUTHENTICATED: needsRight,
    FORBIDDEN: needsRight,
    RATE_LIMITED: isMutation || kind === SUBSCRIPTION,
    UNAVAILABLE: needsRight,
    OUTCOME_UNKNOWN: isMutation && !SETTINGS.includes(field.name),
    INTERNAL_SERVER_ERROR: true,
    REQUEST_ENTITY_TOO_LARGE: field.args.some(({ type }) => String(type).startsWith('[')),
  }
  // The keys of this table.
  return (Object.keys(codes) as ErrorCode[]).filter((code) => codes[code])
}

function errorsOf(page: FieldPage, errors: readonly FieldError[]): string {
  const own = errors.map(({ code, message }) => [codeLink(code), message])
  const general = generalCodes(page).map((code) => codeLink(code))
  return [
    own.length > 0 && table(['Code', 'For example'], own),
    `${own.length > 0 ? 'Like other fields, it may also fail' : 'It may fail'} with ${listed(general)}. A whole request may have [other errors](../errors.md#codes).`,
  ]
    .filter(Boolean)
    .join('\n\n')
}

/** The page that lists all others. `text`: the present one, whose beginning is kept. */
export function indexOf(text: string): string {
  const groups = Object.entries(KINDS).map(([kind, title]) => {
    const pages = fieldPages.filter((page) => page.kind === kind)
    const items = pages.map((page) => {
      const { field, name } = page
      const [first] = /^.*?[.:](?= |$)/.exec(field.description ?? '') ?? []
      return `- [${titleOf(page)}](${name}.md): ${prose(first).replace(/[.:]$/, '')}.`
    })
    return `## ${title}\n\n${items.join('\n')}\n`
  })
  const types = '## Types\n\n- [Types](types.md): what arguments and results consist of.\n'
  return `${keptOf(text)}${[...groups, types].join('\n')}`
}

/** All types that several fields share. */
export function typesPage(): string {
  const types = Object.values(schema.getTypeMap()).filter((type) => !isIntrospectionType(type))
  const roots = fieldPages.map(({ kind }) => schema.getRootType(kind))
  const objects = types.filter(
    (type) => isInterfaceType(type) || (isObjectType(type) && !roots.includes(type)),
  )
  const inputs = types.filter(isInputObjectType)
  const enums = types.filter(isEnumType)
  const scalars = types.filter((type) => isScalarType(type) && !isSpecifiedScalarType(type))
  return [
    '# Types\n\nThe types of arguments and results. [Each field](README.md) has its own page.',
    `## Objects\n\n${objects.map(objectText).join('\n\n')}`,
    `## Inputs\n\n${inputs.map((type) => `${headed(type)}\n\n${argumentTable(Object.values(type.getFields()))}`).join('\n\n')}`,
    `## Enums\n\n${enums
      .map((type) => {
        if (type.name === 'ErrorCode') return `${headed(type)} [All codes](../errors.md#codes)`
        const rows = type.getValues().map(({ name, description }) => [`\`${name}\``, prose(description)])
        return `${headed(type)}\n\n${table(['Value', 'Meaning'], rows)}`
      })
      .join('\n\n')}`,
    `## Scalars\n\n${scalars.map(headed).join('\n\n')}\n`,
  ].join('\n\n')
}

const headed = ({ name, description }: GraphQLNamedType) => `### ${name}\n\n${prose(description)}`

function objectText(type: GraphQLNamedType): string {
  const fields = isObjectType(type) || isInterfaceType(type) ? Object.values(type.getFields()) : []
  const withArguments = fields
    .filter(({ args }) => args.length > 0)
    .map(({ name, description, args }) => {
      return `#### ${type.name}.${name}\n\n${prose(description)}\n\n${argumentTable(args)}`
    })
  return [headed(type), fieldTable(type, fields), ...withArguments].join('\n\n')
}

/** The page of all error codes. `text`: the present one, of which all is kept but what the table and the schema say. */
export function errorsPage(text: string, errors: ReadonlyMap<string, readonly FieldError[]>): string {
  const notes = new Map(
    [...text.matchAll(/^### ([A-Z_]+)\n(.*?)(?=^### |$(?![\s\S]))/gms)].map(([, code, rest = '']) => {
      // The first paragraph is the table's, and a list of fields the schema's.
      const [, ...kept] = rest.trim().split('\n\n')
      return [code, kept.filter((part) => !part.startsWith('Fields: ')).join('\n\n')]
    }),
  )
  const sections = Object.entries(errorCodes).map(([code, description]) => {
    const pages = fieldPages.filter(({ name }) => errors.get(name)?.some((error) => error.code === code))
    const links = pages.map(({ name }) => `[${name}](reference/${name}.md)`)
    const fields = links.length > 0 && `Fields: ${links.join(', ')}.`
    return [`### ${code}`, description, notes.get(code), fields].filter(Boolean).join('\n\n')
  })
  return `${keptOf(text)}## Codes\n\n${sections.join('\n\n')}\n`
}

/** The page of all limits. `text`: the present one, whose beginning is kept. */
export function limitsPage(text: string): string {
  const groups = [...limits].map(([title, rows]) => `## ${title}\n\n${limitTable(rows, '')}\n`)
  return `${keptOf(text)}${groups.join('\n')}`
}

function limitTable(rows: ReturnType<typeof limitsOf>, folder?: string): string {
  const cells = rows.map(({ what, value, beyond }) => [what, value, prose(beyond, folder)])
  return table(['Limit', 'Value', 'Beyond it'], cells)
}

/** What stands before the first section. */
function keptOf(text: string): string {
  return text.split(/^## /m)[0] ?? ''
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [
    head,
    head.map(() => '---'),
    ...rows.map((row) => row.map((cell) => cell.replaceAll('|', '\\|'))),
  ]
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function typeLink(type: GraphQLType, rest = ''): string {
  const named = getNamedType(type)
  const code = `\`${type}${rest}\``
  return isScalarType(named) && isSpecifiedScalarType(named)
    ? code
    : `[${code}](types.md#${named.name.toLowerCase()})`
}

function scopeLink(scope: string): string {
  return `[${scope}](../security.md#grants)`
}

function codeLink(code: string, folder = '../'): string {
  return `[\`${code}\`](${folder}errors.md#${code.toLowerCase()})`
}

const CODES = new RegExp(`\`?\\b(${Object.keys(errorCodes).join('|')})\\b\`?`, 'g')

/** A description, whose error codes are links. */
function prose(text: string | null | undefined, folder?: string): string {
  return (text ?? '').replace(CODES, (_, code) => codeLink(code, folder))
}

function listed(items: readonly string[]): string {
  return items.length > 1 ? `${items.slice(0, -1).join(', ')} or ${items.at(-1)}` : items.join('')
}
