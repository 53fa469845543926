import {
  type ASTNode,
  type ExecutionArgs,
  GraphQLError,
  getOperationAST,
  isValueNode,
  Kind,
  visit,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { createVariableCheck } from '../../variables.ts'

/** Adds BAD_USER_INPUT and the argument to errors about values of the wrong type, in literals and in variables. */
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

  onExecute({ args, setResultAndStopExecution }) {
    const error = variableError(args)
    if (error) setResultAndStopExecution({ errors: [error] })
  },

  onSubscribe({ args, setResultAndStopExecution }) {
    const error = variableError(args)
    if (error) setResultAndStopExecution({ errors: [error] })
  },
}

function variableError(args: ExecutionArgs): GraphQLError | undefined {
  const { schema, document, operationName, variableValues } = args
  const operation = getOperationAST(document, operationName)
  if (!operation?.variableDefinitions?.length) return undefined
  const fault = createVariableCheck(schema, document, operation)(variableValues)
  if (!fault) return undefined
  const { definition, path, message, limit } = fault
  const name = definition.variable.name.value
  const isUse = (node: ASTNode) => node.kind === Kind.VARIABLE && node.name.value === name
  const [argument = name] = argumentPaths(document, isUse).values()
  const fullPath = [argument, ...path].join('.')
  const extensions = limit === undefined ? {} : { limit }
  const error = new GraphQLError(`Argument "${fullPath}" ${message}.`, { nodes: definition, extensions })
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

function mark(error: GraphQLError, argument: string | undefined): void {
  Object.assign(error.extensions, {
    code: 'BAD_USER_INPUT',
    ...(argument !== undefined && { argument }),
    // Not executed: 400, or 200 for clients that only accept `application/json`.
    http: { spec: true, status: 400 },
  })
}

/** Paths of values, each starting with its argument: `changes.3.delta`. */
function argumentPaths(document: ASTNode, isWanted: (node: ASTNode) => boolean): Map<ASTNode, string> {
  const paths = new Map<ASTNode, string>()
  visit(document, {
    enter(node, _key, parent, path, ancestors) {
      if (!parent || !isWanted(node)) return
      const steps: (string | number)[] = []
      // All nodes and lists below the document; `path` has their keys.
      for (const [index, step] of [...ancestors.slice(1), parent, node].entries()) {
        const isInside = steps.length > 0
        if ('kind' in step && step.kind === (isInside ? Kind.OBJECT_FIELD : Kind.ARGUMENT)) {
          steps.push(step.name.value)
        } else if (isInside && path[index - 1] === 'values') {
          steps.push(path[index] ?? '')
        }
      }
      if (steps.length > 0) paths.set(node, steps.join('.'))
    },
  })
  return paths
}
