import { type ASTVisitor, GraphQLError, type ValidationContext } from 'graphql'
import type { Plugin } from 'graphql-yoga'

/** Maximum length of an alias, in characters. A list repeats it for each item. */
const MAX_LENGTH = 255

/** Rejects documents with aliases that would make responses many times as long as the documents. */
export const aliases: Plugin = {
  onValidate({ addValidationRule }) {
    addValidationRule(lengthRule)
  },
}

function lengthRule(context: ValidationContext): ASTVisitor {
  return {
    Field({ alias }) {
      const length = alias?.value.length ?? 0
      if (length <= MAX_LENGTH) return
      const message = `An alias may have at most ${MAX_LENGTH} characters; one has ${length}.`
      context.reportError(new GraphQLError(message, { nodes: alias ?? null }))
    },
  }
}
