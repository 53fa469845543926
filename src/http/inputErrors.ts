import {
  type ArgumentNode,
  type ASTNode,
  BREAK,
  type DocumentNode,
  type GraphQLError,
  Kind,
  type ObjectFieldNode,
  visit,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'

/**
 * Gives values of the wrong type the code BAD_USER_INPUT and the argument they were meant for, whether they
 * came as literals (which fail in validation) or as variables (which fail before execution).
 */
export const inputErrors: Plugin = {
  onValidate({ params: { documentAST } }) {
    return ({ valid, result }) => {
      if (valid) return
      for (const error of result as GraphQLError[]) {
        const [node] = error.nodes ?? []
        if (node && isValue(node))
          mark(
            error,
            argumentPath(documentAST, (other) => other === node),
          )
      }
    }
  },

  onExecute({ args: { document } }) {
    return {
      onExecuteDone({ result }) {
        if (!('errors' in result) || 'data' in result) return
        for (const error of result.errors ?? []) {
          const [node] = error.nodes ?? []
          if (node?.kind === Kind.VARIABLE_DEFINITION) {
            const name = node.variable.name.value
            const argument = argumentPath(document, (other) => isUseOf(other, name)) ?? name
            mark(error, [argument, ...pathWithin(error.message)].join('.'))
          }
        }
      },
    }
  },
}

/** The argument that a resolver was refused, because a variable for it holds null. */
export function refusedArgument({ nodes, message }: GraphQLError): string | undefined {
  const [node] = nodes ?? []
  return node && isValue(node) ? /^Argument "(\w+)"/.exec(message)?.[1] : undefined
}

const values = new Set<string>([
  Kind.VARIABLE,
  Kind.INT,
  Kind.FLOAT,
  Kind.STRING,
  Kind.BOOLEAN,
  Kind.NULL,
  Kind.ENUM,
  Kind.LIST,
  Kind.OBJECT,
  Kind.OBJECT_FIELD,
])

function isValue({ kind }: ASTNode): boolean {
  return values.has(kind)
}

function isUseOf(node: ASTNode, name: string): boolean {
  return node.kind === Kind.VARIABLE && node.name.value === name
}

function mark(error: GraphQLError, argument: string | undefined): void {
  Object.assign(error.extensions, {
    code: 'BAD_USER_INPUT',
    ...(argument !== undefined && { argument }),
    // Not executed: 400, or 200 for clients that only know `application/json`.
    http: { spec: true, status: 400 },
  })
}

/** Where a value stands, from its argument on: `changes.3.delta`. */
function argumentPath(document: DocumentNode, isSought: (node: ASTNode) => boolean): string | undefined {
  let found: string | undefined
  visit(document, {
    enter(node, _key, _parent, path) {
      if (!isSought(node)) return undefined
      found = stepsAlong(document, path)
      return found === undefined ? undefined : BREAK
    },
  })
  return found
}

function stepsAlong(document: DocumentNode, path: readonly (string | number)[]): string | undefined {
  const steps: (string | number)[] = []
  let place: unknown = document
  path.forEach((key, index) => {
    // The path was made of the document's own keys.
    place = (place as Record<PropertyKey, unknown>)[key]
    const { kind, name } = place as Partial<ArgumentNode | ObjectFieldNode>
    if (kind === Kind.ARGUMENT || (kind === Kind.OBJECT_FIELD && steps.length > 0))
      steps.push(name?.value ?? '')
    else if (path[index - 1] === 'values' && steps.length > 0) steps.push(key)
  })
  return steps.length > 0 ? steps.join('.') : undefined
}

/** The place within a variable's value that its error speaks of: `at "changes[3].delta"`. */
function pathWithin(message: string): string[] {
  const place = / at "\w+([^"]*)";/.exec(message)?.[1] ?? ''
  return place.match(/\w+/g) ?? []
}
