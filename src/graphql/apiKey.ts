import {
  type ApiKey,
  type Caller,
  callerKinds,
  type Grant,
  MAX_GRANTS,
  MAX_NAMES,
  SCOPES,
  scopes,
} from '../rules/rights.ts'
import * as checks from './arguments.ts'
import { decodeId } from './arguments.ts'
import { builder } from './builder.ts'
import { apiKeyCursors, connectionOf } from './lists.ts'
import { admin, none } from './rights.ts'

const ScopeRef = builder.enumType('Scope', {
  description: 'What a grant allows. WRITE includes ADD; ADMIN includes everything.',
  values: scopes,
})

const GrantRef = builder.objectRef<Grant>('Grant').implement({
  description: 'Rights on names of counters and sequences. Sequence groups are not limited.',
  fields: (t) => ({
    scopes: t.expose('scopes', { type: [ScopeRef], description: 'What is allowed.' }),
    namespace: t.exposeString('namespace', { nullable: true, description: 'Namespace; null: every one.' }),
    names: t.exposeStringList('names', {
      nullable: true,
      description: 'Exactly these names; null: see prefix.',
    }),
    prefix: t.exposeString('prefix', { description: 'Names that start with this.' }),
    maxDelta: t.expose('maxDelta', {
      type: 'SafeInt',
      description: 'ADD: maximum addition to a counter in one request.',
    }),
    maxCount: t.exposeInt('maxCount', { description: 'NUMBER: maximum numbers in one call.' }),
  }),
})

const GrantInput = builder.inputType('GrantInput', {
  description: 'Rights on names of counters and sequences.',
  fields: (t) => ({
    scopes: t.field({
      type: [ScopeRef],
      required: true,
      description: 'What to allow.',
      extensions: { maxItems: SCOPES.length },
    }),
    namespace: t.string({ description: 'Namespace; null: every one.' }),
    names: t.stringList({
      description: 'Exactly these names, 1 to 100. Not with `prefix`.',
      extensions: { maxItems: MAX_NAMES },
    }),
    prefix: t.string({ required: true, defaultValue: '', description: 'Names that start with this.' }),
    maxDelta: t.field({
      type: 'SafeInt',
      required: true,
      defaultValue: 1,
      description: 'ADD: maximum addition to a counter in one request, at least 1.',
    }),
    maxCount: t.int({
      required: true,
      defaultValue: 1,
      description: 'NUMBER: maximum numbers in one call, 1 to 1 000 000.',
    }),
  }),
})

/** A grant as it is stored. */
function grantIn({ namespace, names, ...grant }: typeof GrantInput.$inferInput): Grant {
  return { ...grant, scopes: [...new Set(grant.scopes)], namespace: namespace ?? null, names: names ?? null }
}

const ApiKeyRef = builder.objectRef<ApiKey>('ApiKey')

builder.node(ApiKeyRef, {
  description: 'A key with which a page or a server calls.',
  id: { resolve: ({ id }) => String(id) },
  loadWithoutCache: (id, { nth }) => nth.apiKeys.read(Number(id)),
  fields: (t) => ({
    label: t.exposeString('label', { description: 'What it is for.' }),
    prefix: t.exposeString('prefix', { description: 'The first characters of the key, as logs show it.' }),
    grants: t.expose('grants', { type: [GrantRef], description: 'What it allows.' }),
    origins: t.exposeStringList('origins', {
      nullable: true,
      description: "Origins of the pages that may use it, `*` for any; null: a server's key, for no page.",
    }),
    perMinute: t.exposeInt('perMinute', {
      nullable: true,
      description: "Maximum changes a minute from one client address; null: the server's default.",
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was created.' }),
    expiresAt: t.expose('expiresAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When it becomes invalid; null: never.',
    }),
    revokedAt: t.expose('revokedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When it was revoked; null: it was not.',
    }),
    lastUsedAt: t.expose('lastUsedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When it was last used, about a minute behind; null: never.',
    }),
  }),
})

const CreatedApiKey = builder.objectRef<{ secret: string; key: ApiKey }>('CreatedApiKey').implement({
  description: 'A new API key: the only response with the key itself.',
  fields: (t) => ({
    secret: t.exposeString('secret', { description: 'The key. Store it now: it is not shown again.' }),
    key: t.expose('key', { type: ApiKeyRef, description: 'Everything else about it.' }),
  }),
})

const CallerKind = builder.enumType('ViewerKind', { description: 'Kind of a caller.', values: callerKinds })

const Viewer = builder.objectRef<Caller>('Viewer').implement({
  description: 'The caller, and what the caller may do.',
  fields: (t) => ({
    kind: t.expose('kind', { type: CallerKind, description: 'How the caller was identified.' }),
    key: t.field({
      type: ApiKeyRef,
      nullable: true,
      description: 'Its API key; null: another kind of caller.',
      resolve: ({ key }) => key ?? null,
    }),
    grants: t.expose('grants', { type: [GrantRef], description: 'What it may do.' }),
    expiresAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When its credentials become invalid; null: never.',
      resolve: ({ expiresAt }) => expiresAt ?? null,
    }),
  }),
})

builder.queryFields((t) => ({
  viewer: t.field({
    type: Viewer,
    extensions: { right: none('everyone') },
    description: 'Returns who is asking, and what they may do.',
    resolve: (_, _args, { caller }) => caller,
  }),
  apiKeys: t.connection(
    {
      type: ApiKeyRef,
      nullable: true,
      description: 'All API keys, in the order of their creation.',
      extensions: { check: checks.page, right: admin() },
      resolve: (_, args, context, info) =>
        connectionOf(args, context, info, apiKeyCursors, context.nth.apiKeys.list, ({ id }) => id),
    },
    { name: 'ApiKeyConnection', description: 'A page of API keys.' },
    { name: 'ApiKeyEdge', description: 'An API key in a list.' },
  ),
}))

builder.mutationFields((t) => ({
  createApiKey: t.field({
    type: CreatedApiKey,
    extensions: { right: admin() },
    description: 'Creates an API key. A lost response is a lost key: revoke it, and create another.',
    args: {
      label: t.arg.string({
        required: true,
        description: 'What it is for, 1 to 191 characters.',
        extensions: { check: checks.name },
      }),
      grants: t.arg({
        type: [GrantInput],
        required: true,
        description: 'What it allows: 1 to 100 grants.',
        extensions: { maxItems: MAX_GRANTS, check: checks.grants },
      }),
      origins: t.arg.stringList({
        description:
          'Origins of the pages that may use it, such as https://shop.example, 1 to 100; ["*"]: any. Default: null, a server\'s key.',
        extensions: { maxItems: checks.MAX_ORIGINS, check: checks.origins },
      }),
      perMinute: t.arg.int({
        description: "Maximum changes a minute from one client address. Default: the server's.",
        extensions: { check: checks.perMinute },
      }),
      expiresAt: t.arg({
        type: 'DateTime',
        description: 'When it becomes invalid. Default: never.',
        extensions: { check: checks.future },
      }),
    },
    resolve: (_, { label, grants, origins, perMinute, expiresAt }, { nth }) =>
      nth.apiKeys.create({
        label,
        grants: grants.map(grantIn),
        origins: origins ?? null,
        perMinute: perMinute ?? null,
        expiresAt: expiresAt ?? null,
      }),
  }),
  revokeApiKey: t.field({
    type: ApiKeyRef,
    extensions: { right: admin() },
    description: 'Revokes an API key, on all servers within two seconds; a repeat returns the same result.',
    args: {
      id: t.arg.id({ required: true, description: 'ID of the key.', extensions: { check: checks.apiKeyId } }),
    },
    resolve: (_, { id }, { nth }) => nth.apiKeys.revoke(Number(decodeId(id).id)),
  }),
}))
