import {
  type ASTNode,
  BREAK,
  type DocumentNode,
  type ExecutionResult,
  GraphQLError,
  type GraphQLSchema,
  isNonNullType,
  Kind,
  locatedError,
  type OperationDefinitionNode,
  OperationTypeNode,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from 'graphql'
import { compileQuery, isCompiledQuery } from 'graphql-jit'
import { fieldCount, fragmentsOf } from '../graphql/fieldCount.ts'
import { FieldError } from '../graphql/fieldError.ts'
import { toldOf } from './manyErrors.ts'
import { createVariableCheck } from './variables.ts'

/**
 * A document's one operation as a function: as graphql-js would execute it, in a fraction of the time. Of several
 * errors that each leave no data, it tells one.
 */
export interface CompiledOperation {
  name: string | undefined
  isMutation: boolean
  /** Errors without `data` say that the variables were refused, and nothing was executed. */
  execute(
    context: object,
    variables: Record<string, unknown> | null | undefined,
  ): ExecutionResult | Promise<ExecutionResult>
}

/** The most fields, those of fragments counted at each use: compiling takes 15 to 40 µs for each. */
const MAX_FIELDS = 200

/**
 * How many fields an operation has that may be compiled; 0 for all others.
 *
 * Left to graphql-js is what compiled code does otherwise: default values and directives, variables within
 * values, a response name that JavaScript keeps for itself, the schema itself, and variables that may be null
 * where an argument may not (given null, it forgets the mutations that come after); and what isn't worth it.
 */
export function compilableFields(schema: GraphQLSchema, document: DocumentNode): number {
  const [operation, another] = document.definitions.filter(isOperation)
  if (!operation || another || operation.operation === OperationTypeNode.SUBSCRIPTION) return 0
  const fields = fieldCount(operation.selectionSet, fragmentsOf(document))
  return fields <= MAX_FIELDS && !isLeftOut(schema, document, operation) ? fields : 0
}

/** Compiles an operation that `compilableFields` has found good, and that was validated. */
export function compileOperation(
  schema: GraphQLSchema,
  document: DocumentNode,
): CompiledOperation | undefined {
  const [operation] = document.definitions.filter(isOperation)
  const compiled = compileQuery(schema, document)
  if (!operation || !isCompiledQuery(compiled)) return undefined
  const located = (result: ExecutionResult) => withNodes(result, document)
  const variableFault = createVariableCheck(schema, document, operation)
  return {
    name: operation.name?.value,
    isMutation: operation.operation === OperationTypeNode.MUTATION,
    execute(context, variables) {
      // It takes a list for an object, and makes an error of each wrong item.
      if (variableFault(variables)) return REFUSED
      const result: ExecutionResult | Promise<ExecutionResult> = compiled.query(undefined, context, variables)
      return 'then' in result ? result.then(located) : located(result)
    },
  }
}

const REFUSED: ExecutionResult = { errors: [new GraphQLError('A variable is wrong.')] }

function isOperation(node: ASTNode): node is OperationDefinitionNode {
  return node.kind === Kind.OPERATION_DEFINITION
}

function isLeftOut(
  schema: GraphQLSchema,
  document: DocumentNode,
  { variableDefinitions = [] }: OperationDefinitionNode,
): boolean {
  const required = new Set(
    variableDefinitions.flatMap(({ variable, type }) =>
      type.kind === Kind.NON_NULL_TYPE ? [variable.name.value] : [],
    ),
  )
  const types = new TypeInfo(schema)
  let isFound = false
  const leaveOut = () => {
    isFound = true
    return BREAK
  }
  visit(
    document,
    visitWithTypeInfo(types, {
      Directive: leaveOut,
      Name: ({ value }) => (value.startsWith('__') && value !== '__typename' ? leaveOut() : undefined),
      // Not into the variable that is defined.
      VariableDefinition: ({ defaultValue }) => (defaultValue ? leaveOut() : false),
      Variable({ name }, _key, parent) {
        const isWholeArgument = parent && 'kind' in parent && parent.kind === Kind.ARGUMENT
        const mayFail = isNonNullType(types.getInputType()) && !required.has(name.value)
        return isWholeArgument && !mayFail ? undefined : leaveOut()
      },
    }),
  )
  return isFound
}

/** Compiled code knows the place of a field that failed; errors have the field itself, as graphql-js does it. */
function withNodes(result: ExecutionResult, document: DocumentNode): ExecutionResult {
  if (!result.errors || !('data' in result)) return result
  return { errors: toldOf(result.errors).map((error) => withNode(error, document)), data: result.data }
}

function withNode(error: GraphQLError, document: DocumentNode): GraphQLError {
  const { originalError } = error
  if (originalError instanceof FieldError) return originalError
  const nodes = nodeAt(document, error)
  return locatedError(originalError ?? new GraphQLError(error.message, { nodes }), nodes, error.path)
}

function nodeAt(document: DocumentNode, { locations }: GraphQLError): ASTNode | null {
  const [location] = locations ?? []
  let found: ASTNode | null = null
  visit(document, {
    enter(node) {
      const { line, column } = node.loc?.startToken ?? {}
      if (line !== location?.line || column !== location?.column) return undefined
      found = node
      return BREAK
    },
  })
  return found
}
