import {
  type ASTVisitor,
  type DocumentNode,
  GraphQLError,
  type ParseOptions,
  parse,
  type Source,
  type ValidationContext,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { fieldCount, fragmentsOf, selectionDepth } from '../graphql/fieldCount.ts'
import { asksTooMuchOfSchema } from './introspection.ts'
import type { KnownDocuments } from './known.ts'

/**
 * The longest document, in tokens: 600 aliased fields with their arguments, or `incrementMany` of 1 000.
 * Some validation rules take time in proportion to its square.
 */
const MAX_TOKENS = 10_000

/** The most fields that an operation may ask for, those of fragments counted at each use. */
const MAX_FIELDS = 10_000

/** The most levels of fields and fragments. An answer with thousands could not be written as JSON. */
const MAX_DEPTH = 100

/** The most values that introspection may give. Tools ask for 4 000 of this schema. */
const MAX_SCHEMA_VALUES = 20_000

/** Refuses documents that would be too much work to parse, to validate or to execute; remembers the others. */
export function documents(known: KnownDocuments): Plugin {
  return {
    onParse({ params: { source }, setParseFn, setParsedDocument }) {
      const found = known.get(String(source))
      if (found) setParsedDocument(found.document)
      else setParseFn(parseBounded)
    },

    onValidate({ params: { documentAST }, addValidationRule, setResult }) {
      const text = documentAST.loc?.source.body ?? ''
      if (known.get(text)?.document === documentAST) {
        setResult([])
        return undefined
      }
      addValidationRule(sizeRule)
      return ({ valid, result, setResult }) => {
        if (valid) known.add(text, documentAST)
        // Of the error by which graphql-js ends a comparison of too many fields, the message says nothing.
        const errors = result as readonly GraphQLError[]
        if (errors.some(({ message }) => message === 'Validation aborted.')) {
          setResult([new GraphQLError('The document asks for the same field too many times.')])
        }
      }
    },
  }
}

function parseBounded(source: string | Source, options?: ParseOptions): DocumentNode {
  try {
    return parse(source, { ...options, maxTokens: MAX_TOKENS })
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    // The parser calls itself for each level.
    throw new GraphQLError('Syntax Error: Document is nested too deeply.')
  }
}

/** Nested fragments can make a short document ask for more fields than a machine can count to. */
function sizeRule(context: ValidationContext): ASTVisitor {
  return {
    OperationDefinition(operation) {
      const fragments = fragmentsOf(context.getDocument())
      const refuse = (message: string) => context.reportError(new GraphQLError(message))
      if (fieldCount(operation.selectionSet, fragments) > MAX_FIELDS) {
        refuse(`An operation may ask for at most ${MAX_FIELDS} fields.`)
      } else if (selectionDepth(operation.selectionSet, fragments) > MAX_DEPTH) {
        refuse(`Fields and fragments may be nested at most ${MAX_DEPTH} levels deep.`)
      } else if (
        asksTooMuchOfSchema(context.getSchema(), fragments, operation, {
          maxValues: MAX_SCHEMA_VALUES,
          maxDepth: MAX_DEPTH,
        })
      ) {
        refuse(`Introspection may give at most ${MAX_SCHEMA_VALUES} values in one request.`)
      }
    },
  }
}
