import type { GraphQLSchema } from 'graphql'

export function gatewayTo(url: string, key?: string): Promise<GraphQLSchema>
