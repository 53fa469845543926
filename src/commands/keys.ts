import { parseArgs } from 'node:util'
import { type ApiKeys, openApiKeys } from '../repository/apiKeys.ts'
import { LAST_INSTANT } from '../rules/calendar.ts'
import { nameFault } from '../rules/names.ts'
import {
  type ApiKey,
  type ApiKeyOptions,
  type Grant,
  grantFault,
  MAX_PER_MINUTE,
  originFault,
  SCOPES,
  type Scope,
} from '../rules/rights.ts'
import { documentIdFault, plainDocumentId } from '../rules/trustedDocument.ts'
import { audit, notices, USER, withPool } from './database.ts'
import { itemsOf } from './paging.ts'

export const USAGE = `Usage: nth keys create --label <text> --allow <scopes> [options]
       nth keys list
       nth keys revoke <the first characters of a key>

Creates, lists and revokes API keys in the database of DATABASE_URL, or else the private one of NTH_DATA_DIR. It works
while Nth runs, too.

  --label <text>        what the key is for
  --allow <scopes>      ${SCOPES.join(', ')}; separated by commas
  --namespace <name>    only in this namespace (every one)
  --name <name>         only this counter or sequence; may be repeated
  --prefix <text>       only names that start with this
  --max-delta <n>       ADD, HOLD: maximum addition to a counter in one request (1)
  --max-count <n>       NUMBER: maximum numbers in one call (1)
  --once-only           ADD, NUMBER: only for a subject, and each subject once; pages need it to read or take back
                        what a subject counted, and a subject then has at least 16 characters
  --origin <origin>     pages of this origin may use it, such as https://shop.example, or * for any page; may be
                        repeated (none: a key for servers)
  --per-minute <n>      maximum changes a minute from one client address (the server's limit)
  --document <id>       the only trusted document that it may run; may be repeated (any document)
  --expires <time>      when it becomes invalid, such as 2027-01-31T00:00:00Z (never)
`

export async function run(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      label: { type: 'string' },
      allow: { type: 'string' },
      namespace: { type: 'string' },
      name: { type: 'string', multiple: true },
      prefix: { type: 'string', default: '' },
      'max-delta': { type: 'string', default: '1' },
      'max-count': { type: 'string', default: '1' },
      'once-only': { type: 'boolean', default: false },
      origin: { type: 'string', multiple: true },
      'per-minute': { type: 'string' },
      document: { type: 'string', multiple: true },
      expires: { type: 'string' },
    },
  })
  const [command, prefix, ...rest] = positionals
  if (command === undefined) return void process.stdout.write(USAGE)
  const unexpected = command === 'revoke' ? rest[0] : prefix
  if (unexpected !== undefined) throw new Error(`Unexpected argument "${unexpected}".`)
  if (command === 'revoke' && prefix !== undefined) return withApiKeys((keys) => revoke(keys, prefix))
  if (command === 'list') return withApiKeys(list)
  if (command !== 'create') throw new Error(`Unknown command "${command}"; see --help.`)

  const { label, allow, namespace, name, origin, document, expires, 'per-minute': perMinute } = values
  if (label === undefined) throw new Error('--label is required.')
  const labelFault = nameFault(label)
  if (labelFault) throw new Error(`--label ${labelFault.message}.`)
  if (allow === undefined) throw new Error('--allow is required.')
  const grant: Grant = {
    scopes: [...new Set(allow.split(',').map(scopeNamed))],
    namespace: namespace ?? null,
    names: name ?? null,
    prefix: values.prefix,
    maxDelta: whole('--max-delta', values['max-delta']),
    maxCount: whole('--max-count', values['max-count']),
    onceOnly: values['once-only'],
  }
  const fault = grantFault(grant)
  if (fault) throw new Error(`${OPTIONS[fault.path?.[0] ?? '']} ${fault.message}.`)
  for (const item of origin ?? [])
    if (originFault(item)) throw new Error(`--origin ${originFault(item)?.message}.`)
  for (const id of document ?? [])
    if (documentIdFault(id)) throw new Error(`--document ${documentIdFault(id)?.message}.`)
  const expiresAt = expires === undefined ? null : new Date(expires)
  if (expiresAt && !(expiresAt > new Date() && expiresAt.getTime() < LAST_INSTANT))
    throw new Error('--expires must be a time in the future, before the year 2100.')
  const options: ApiKeyOptions = {
    label,
    grants: [grant],
    origins: origin ?? null,
    perMinute: perMinute === undefined ? null : whole('--per-minute', perMinute, MAX_PER_MINUTE),
    documents: document?.map(plainDocumentId) ?? null,
    expiresAt,
  }
  await withApiKeys(async (keys) => {
    const { secret, key } = await keys.create(options, USER)
    console.log(secret)
    console.error(`Created ${described(key)}. Store it now: it is not shown again.`)
    audit({ field: 'nth keys create', name: key.prefix })
  })
}

const OPTIONS: Record<string, string> = {
  scopes: '--allow',
  namespace: '--namespace',
  names: '--name',
  prefix: '--prefix',
  maxDelta: '--max-delta',
  maxCount: '--max-count',
  onceOnly: '--once-only',
}

function scopeNamed(text: string): Scope {
  const scope = SCOPES.find((name) => name === text.trim().toUpperCase())
  if (scope) return scope
  throw new Error(`--allow has the unknown scope "${text}"; supported: ${SCOPES.join(', ')}.`)
}

function whole(option: string, text: string, max = Number.MAX_SAFE_INTEGER): number {
  if (/^[1-9]\d{0,14}$/.test(text) && Number(text) <= max) return Number(text)
  const limit = max < Number.MAX_SAFE_INTEGER ? ` to ${max}` : ''
  throw new Error(`${option} must be a whole number from 1${limit}; it is "${text}".`)
}

async function withApiKeys(work: (keys: ApiKeys) => Promise<void>): Promise<void> {
  await withPool(async (database) => {
    const keys = openApiKeys(database, database, () => new Date(), notices)
    await work(keys).finally(keys.close)
  })
}

async function list(keys: ApiKeys): Promise<void> {
  for await (const key of itemsOf(keys.list)) console.log(described(key))
}

async function revoke(keys: ApiKeys, prefix: string): Promise<void> {
  const matches: ApiKey[] = []
  for await (const key of itemsOf(keys.list)) if (prefix.startsWith(key.prefix)) matches.push(key)
  const [key, ...others] = matches
  if (!key) throw new Error(`No API key begins with ${prefix}; see nth keys list.`)
  if (others.length > 0)
    throw new Error(`Several API keys begin with ${prefix}; revoke the right one in the console.`)
  await keys.revoke(key.id, USER)
  audit({ field: 'nth keys revoke', name: key.prefix })
  console.log(`Revoked ${described(key)}.`)
}

function described({ prefix, label, grants, origins, documents, expiresAt, revokedAt }: ApiKey): string {
  const rights = grants.map(({ scopes, namespace, names, prefix, onceOnly }) => {
    const all = prefix === '' ? 'all names' : `names that start with ${prefix}`
    return `${scopes.join(', ')} on ${names?.join(', ') ?? all} in ${namespace ?? 'every namespace'}${onceOnly ? ', once per subject' : ''}`
  })
  const users = origins ? `pages of ${origins.join(', ')}` : 'servers'
  const bound = documents ? `, trusted documents only: ${documents.length}` : ''
  const until = expiresAt ? `, until ${expiresAt.toISOString()}` : ''
  const end = revokedAt ? `, revoked ${revokedAt.toISOString()}` : until
  return `${prefix}… (${label}): ${rights.join('; ')}; for ${users}${bound}${end}`
}
