import {
  type ASTNode,
  BREAK,
  type DocumentNode,
  type ExecutionResult,
  GraphQLError,
  type GraphQLSchema,
  isNonNullType,
  Kind,
  type OperationDefinitionNode,
  OperationTypeNode,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from 'graphql'
import { compileQuery, isCompiledQuery } from 'graphql-jit'
import { FieldError } from '../../graphql/fieldError.ts'
import { fieldCount, fragmentsOf } from '../../graphql/selections.ts'
import { reportedErrors } from './executionErrors.ts'
import { createVariableCheck } from './variables.ts'

/**
 * A document's only operation as a function. It returns what graphql-js would, in a fraction of the time. Of several
 * errors that each leave no data, it reports one.
 */
export interface CompiledOperation {
  name: string | undefined
  isMutation: boolean
  /** Errors without `data`: the variables were rejected, and nothing was executed. */
  execute(
    context: object,
    variables: Record<string, unknown> | null | undefined,
  ): ExecutionResult | Promise<ExecutionResult>
}

/** Maximum fields, with fragments counted at each use: compiling takes 15 to 40 µs for each. */
const MAX_FIELDS = 200

/**
 * Number of fields of an operation that may be compiled; 0 for all others.
 *
 * graphql-js executes what compiled code handles differently: default values and directives, variables within values,
 * response names that JavaScript reserves, introspection, and nullable variables for non-null arguments (given null,
 * compiled code skips the mutations after it); and what is too large to be worth compiling.
 */
export function compilableFields(schema: GraphQLSchema, document: DocumentNode): number {
  const [operation, another] = document.definitions.filter(isOperation)
  if (!operation || another || operation.operation === OperationTypeNode.SUBSCRIPTION) return 0
  const fields = fieldCount(operation.selectionSet, fragmentsOf(document))
  return fields <= MAX_FIELDS && !isUncompilable(schema, document, operation) ? fields : 0
}

/** Compiles a validated operation for which `compilableFields` returned more than 0. */
export function compileOperation(
  schema: GraphQLSchema,
  document: DocumentNode,
): CompiledOperation | undefined {
  const [operation] = document.definitions.filter(isOperation)
  const compiled = compileQuery(schema, document)
  if (!operation || !isCompiledQuery(compiled)) return undefined
  const variableFault = createVariableCheck(schema, document, operation)
  return {
    name: operation.name?.value,
    isMutation: operation.operation === OperationTypeNode.MUTATION,
    execute(context, variables) {
      // Compiled code accepts a list as an object, and creates an error for each wrong item.
      if (variableFault(variables)) return REJECTED
      const result: ExecutionResult | Promise<ExecutionResult> = compiled.query(undefined, context, variables)
      return 'then' in result ? result.then(unwrapped) : unwrapped(result)
    },
  }
}

const REJECTED: ExecutionResult = { errors: [new GraphQLError('Invalid variable.')] }

function isOperation(node: ASTNode): node is OperationDefinitionNode {
  return node.kind === Kind.OPERATION_DEFINITION
}

function isUncompilable(
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
  const reject = () => {
    isFound = true
    return BREAK
  }
  visit(
    document,
    visitWithTypeInfo(types, {
      Directive: reject,
      Name: ({ value }) => (value.startsWith('__') && value !== '__typename' ? reject() : undefined),
      // Skips the variable that is defined.
      VariableDefinition: ({ defaultValue }) => (defaultValue ? reject() : false),
      Variable({ name }, _key, parent) {
        const isWholeArgument = parent && 'kind' in parent && parent.kind === Kind.ARGUMENT
        const mayFail = isNonNullType(types.getInputType()) && !required.has(name.value)
        return isWholeArgument && !mayFail ? undefined : reject()
      },
    }),
  )
  return isFound
}

/** Compiled code wraps errors that are already located. */
function unwrapped(result: ExecutionResult): ExecutionResult {
  if (!result.errors || !('data' in result)) return result
  const errors = reportedErrors(result.errors).map((error) =>
    error.originalError instanceof FieldError ? error.originalError : error,
  )
  return { errors, data: result.data }
}
