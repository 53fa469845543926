import type { ApiKey } from '../core/access/apiKey.ts'
import { openApiKeys } from '../core/access/apiKeys.ts'
import { openApiKeyStore } from '../mysql/access/apiKeys.ts'
import { openDatabase } from '../mysql/connections/database.ts'
import { createFailoverDetector } from '../mysql/connections/failover.ts'
import { silentHealth } from '../mysql/connections/health.ts'
import { openHosts } from '../mysql/connections/hosts/hosts.ts'
import type { Target } from '../mysql/connections/target.ts'
import { withDatabase } from './database.ts'
import { type KeysCommand, parseKeysCommand, USAGE } from './keysArguments.ts'

const MAX_LISTED = 500

/** `nth keys`. */
export async function run(args: string[]): Promise<void> {
  const command = parseKeysCommand(args, new Date())
  if (command.name === 'help') process.stdout.write(USAGE)
  else await withDatabase((target) => execute(command, target))
}

async function execute(command: Exclude<KeysCommand, { name: 'help' }>, target: Target): Promise<void> {
  const onFault = (error: unknown) => console.error(error)
  const database = openDatabase(openHosts([target]), {
    timeLimitMs: 10_000,
    maxPending: 10,
    health: silentHealth(),
    failover: createFailoverDetector(onFault),
  })
  const apiKeys = openApiKeys({ store: openApiKeyStore(database, database), now: () => new Date(), onFault })
  try {
    if (command.name === 'create') {
      const { secret, key } = await apiKeys.create(command.options)
      console.log(secret)
      console.error(`Created ${described(key)}. Store it now: it is not shown again.`)
    } else if (command.name === 'list') {
      for await (const key of listed()) console.log(described(key))
    } else {
      const found: ApiKey[] = []
      for await (const key of listed()) if (command.prefix.startsWith(key.prefix)) found.push(key)
      const [key, ...others] = found
      if (!key) throw new Error(`No API key begins with ${command.prefix}; see nth keys list.`)
      if (others.length > 0)
        throw new Error(`Several API keys begin with ${command.prefix}; revoke by id, as in the console.`)
      await apiKeys.revoke(key.id)
      console.log(`Revoked ${described(key)}.`)
    }
  } finally {
    await apiKeys.close()
    await database.close()
  }

  async function* listed(): AsyncGenerator<ApiKey> {
    let after: number | undefined
    while (true) {
      const page = await apiKeys.list({ after, limit: MAX_LISTED, fromEnd: false })
      yield* page
      after = page.at(-1)?.id
      if (after === undefined) return
    }
  }
}

function described({ prefix, label, grants, origins, expiresAt, revokedAt }: ApiKey): string {
  const rights = grants.map(({ scopes, namespace, names, prefix }) => {
    const all = prefix === '' ? 'all names' : `names that start with ${prefix}`
    return `${scopes.join(', ')} on ${names?.join(', ') ?? all} in ${namespace ?? 'every namespace'}`
  })
  const users = origins ? `pages of ${origins.join(', ')}` : 'servers'
  const end = revokedAt
    ? `, revoked ${revokedAt.toISOString()}`
    : expiresAt
      ? `, until ${expiresAt.toISOString()}`
      : ''
  return `${prefix}… (${label}): ${rights.join('; ')}; for ${users}${end}`
}
