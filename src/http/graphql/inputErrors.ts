import {
  type ArgumentNode,
  type ASTNode,
  type DocumentNode,
  GraphQLError,
  getOperationAST,
  isValueNode,
  Kind,
  type ObjectFieldNode,
  visit,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { createVariableCheck, type VariableFault } from './variables.ts'

/**
 * Adds the code BAD_USER_INPUT and the argument to errors about values of the wrong type, both in literals (which fail
 * in validation) and in variables (which are checked before execution).
 */
export const inputErrors: Plugin = {
  onValidate({ params: { documentAST } }) {
    return ({ valid, result }) => {
      if (valid) return
      // Validation returns GraphQLErrors.
      const errors = (result as GraphQLError[]).filter(({ nodes }) => nodes?.[0] && isValue(nodes[0]))
      const wanted = new Set(errors.flatMap(({ nodes }) => nodes ?? []))
      const paths = argumentPaths(documentAST, (node) => wanted.has(node))
      for (const error of errors) mark(error, error.nodes?.[0] && paths.get(error.nodes[0]))
    }
  },

  onExecute({ args: { schema, document, operationName, variableValues }, setResultAndStopExecution }) {
    const operation = getOperationAST(document, operationName)
    if (!operation?.variableDefinitions?.length) return
    const fault = createVariableCheck(schema, document, operation)(variableValues)
    if (fault) setResultAndStopExecution({ errors: [variableError(document, fault)] })
  },
}

function variableError(document: DocumentNode, fault: VariableFault): GraphQLError {
  const { definition, path, message, limit } = fault
  const name = definition.variable.name.value
  const [argument = name] = argumentPaths(document, (node) => isUseOf(node, name)).values()
  const fullPath = [argument, ...path].join('.')
  const error = new GraphQLError(`Argument "${fullPath}" ${message}.`, {
    nodes: definition,
    extensions: limit === undefined ? {} : { limit },
  })
  mark(error, fullPath)
  return error
}

/** The argument that was rejected because its variable is null. */
export function rejectedArgument({ nodes, message }: GraphQLError): string | undefined {
  const [node] = nodes ?? []
  return node && isValue(node) ? /^Argument "(\w+)"/.exec(message)?.[1] : undefined
}

function isValue(node: ASTNode): boolean {
  return isValueNode(node) || node.kind === Kind.OBJECT_FIELD
}

function isUseOf(node: ASTNode, name: string): boolean {
  return node.kind === Kind.VARIABLE && node.name.value === name
}

function mark(error: GraphQLError, argument: string | undefined): void {
  Object.assign(error.extensions, {
    code: 'BAD_USER_INPUT',
    ...(argument !== undefined && { argument }),
    // Not executed: 400, or 200 for clients that only accept `application/json`.
    http: { spec: true, status: 400 },
  })
}

/** Paths of values, each starting with its argument: `changes.3.delta`. */
function argumentPaths(document: DocumentNode, isWanted: (node: ASTNode) => boolean): Map<ASTNode, string> {
  const paths = new Map<ASTNode, string>()
  visit(document, {
    enter(node, _key, _parent, path) {
      const found = isWanted(node) ? argumentPath(document, path) : undefined
      if (found !== undefined) paths.set(node, found)
    },
  })
  return paths
}

function argumentPath(document: DocumentNode, path: readonly (string | number)[]): string | undefined {
  const steps: (string | number)[] = []
  let current: unknown = document
  path.forEach((key, index) => {
    // The path consists of the document's own keys.
    current = (current as Record<PropertyKey, unknown>)[key]
    const { kind, name } = current as Partial<ArgumentNode | ObjectFieldNode>
    if (kind === Kind.ARGUMENT || (kind === Kind.OBJECT_FIELD && steps.length > 0))
      steps.push(name?.value ?? '')
    else if (path[index - 1] === 'values' && steps.length > 0) steps.push(key)
  })
  return steps.length > 0 ? steps.join('.') : undefined
}
