import { type ASTNode, GraphQLError, GraphQLScalarType, Kind } from 'graphql'
import { GraphQLDateTime, GraphQLSafeInt } from 'graphql-scalars'
import { errorCodes } from '../rules/errors.ts'
import { builder } from './builder.ts'

builder.addScalarType(
  'SafeInt',
  new GraphQLScalarType({
    ...GraphQLSafeInt.toConfig(),
    parseValue: (value) => GraphQLSafeInt.parseValue(typeof value === 'string' ? rejectText() : value),
    parseLiteral: (node, variables) =>
      GraphQLSafeInt.parseLiteral(node.kind === Kind.STRING ? rejectText(node) : node, variables),
    description:
      'Integer from -(2^53-1) to 2^53-1, as a JSON number; strings and fractions are rejected. TypeScript: `number`.',
    specifiedByURL: 'https://tc39.es/ecma262/#sec-number.issafeinteger',
  }),
)

builder.addScalarType(
  'DateTime',
  new GraphQLScalarType({
    ...GraphQLDateTime.toConfig(),
    // Serialized here: JSON.stringify, which can't be split across ticks, took ten times as long for many dates.
    serialize: (value) => (value instanceof Date ? value : new Date(Number(value))).toISOString(),
    description:
      'RFC 3339 timestamp. Output: UTC with milliseconds, `2026-11-20T23:02:00.000Z`; input: any offset. TypeScript: `string`.',
    specifiedByURL: 'https://scalars.graphql.org/andimarek/date-time.html',
  }),
)

builder.enumType('ErrorCode', {
  description:
    'All values of `extensions.code`. More may be added: treat unknown ones as INTERNAL_SERVER_ERROR.',
  values: errorCodes,
})

/** Has its own message: this is the first error of clients that send numbers as strings. */
function rejectText(node?: ASTNode): never {
  throw new GraphQLError('SafeInt must be a JSON number, not a string', { nodes: node ?? null })
}
