import { type Service, startService } from '../server/service.ts'
import { type Answer, answersOf, type ReceivedError } from './client.ts'

export const ADMIN_KEY = 'a-secret-of-the-administrator-0123456789'

/** A caller with credentials. */
export interface Keyed {
  send(
    query: string,
    variables?: object,
    headers?: Record<string, string>,
  ): Promise<Answer & { status: number }>
  ask(query: string, variables?: object): Promise<Answer['data']>
  refusal(query: string, variables?: object): Promise<ReceivedError['extensions']>
}

/** A caller of a service with a secret, or with none. */
export function as({ post }: Pick<Service, 'post'>, secret: string | undefined): Keyed {
  async function send(query: string, variables: object = {}, headers: Record<string, string> = {}) {
    const authorization = secret === undefined ? {} : { authorization: `Bearer ${secret}` }
    const { status, body } = await post(JSON.stringify({ query, variables }), {
      ...authorization,
      ...headers,
    })
    return { status, ...body }
  }
  return { send, ...answersOf(send) }
}

const CREATE = `mutation ($label: String!, $grants: [GrantInput!]!, $origins: [String!], $perMinute: Int, $documents: [ID!], $expiresAt: DateTime) {
  createApiKey(label: $label, grants: $grants, origins: $origins, perMinute: $perMinute, documents: $documents, expiresAt: $expiresAt) {
    secret
    key { id prefix }
  }
}`

/** A service that only an administrator may use at first. */
export async function startProtected(options: Parameters<typeof startService>[0] = {}) {
  const service = await startService({ ...options, access: { adminKey: ADMIN_KEY, ...options.access } })
  const admin = as(service, ADMIN_KEY)
  return {
    ...service,
    admin,
    as: (secret: string | undefined) => as(service, secret),
    /** Creates a key, and returns its secret and id. */
    async createKey(grants: object[], others: object = {}): Promise<{ secret: string; id: string }> {
      const { createApiKey } = await admin.ask(CREATE, { label: 'test', grants, ...others })
      return { secret: createApiKey.secret, id: createApiKey.key.id }
    },
  }
}
