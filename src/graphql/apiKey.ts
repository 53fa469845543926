import type { Page } from '../rules/counter.ts'
import {
  type ApiKey,
  type Caller,
  callerKinds,
  type Grant,
  nameOf,
  originsFault,
  scopes,
} from '../rules/rights.ts'
import { plainDocumentId } from '../rules/trustedDocument.ts'
import * as checks from './arguments.ts'
import { decodeId, grantIn } from './arguments.ts'
import { addEnum, builder, exposed, nameArgument, orNull } from './builder.ts'
import { apiKeyCursors, connectionOf } from './lists.ts'
import { admin, none } from './rights.ts'

const ScopeRef = addEnum(
  'Scope',
  'What a grant allows. WRITE includes ADD, and ADMIN includes everything.',
  scopes,
)

const GrantRef = builder.objectRef<Grant>('Grant').implement({
  description: 'Rights on names of counters and sequences, with all their sequence groups.',
  fields: (t) =>
    exposed(t, {
      scopes: [[ScopeRef], 'What the grant allows.'],
      namespace: [orNull('String'), 'The namespace. Null means every namespace.'],
      names: [orNull(['String']), 'The exact names. Null means all names with `prefix`.'],
      prefix: ['String', 'Only names that start with this text.'],
      maxDelta: ['SafeInt', 'With ADD, the most that one request may add to a counter.'],
      maxCount: ['Int', 'With NUMBER, the most numbers that one call may take.'],
      onceOnly: ['Boolean', 'Whether ADD and NUMBER count only for a subject, and each subject once.'],
    }),
})

const GrantInput = builder.inputType('GrantInput', {
  description: 'Rights on names of counters and sequences.',
  fields: (t) => ({
    scopes: t.field({
      type: [ScopeRef],
      required: true,
      description: 'What to allow.',
    }),
    namespace: t.string({ description: 'The namespace. Null means every namespace.' }),
    names: t.stringList({
      description: '1 to 100 exact names. They cannot be combined with `prefix`.',
    }),
    prefix: t.string({
      required: true,
      defaultValue: '',
      description: 'Only names that start with this text.',
    }),
    maxDelta: t.field({
      type: 'SafeInt',
      required: true,
      defaultValue: 1,
      description: 'With ADD, the most that one request may add to a counter, at least 1.',
    }),
    maxCount: t.int({
      required: true,
      defaultValue: 1,
      description: 'With NUMBER, the most numbers that one call may take, 1 to 1 000 000.',
    }),
    onceOnly: t.boolean({
      required: true,
      defaultValue: false,
      description:
        'Whether ADD and NUMBER count only for a subject, and each subject once. With a token, the subject is its `sub`. With a key for pages, a subject has at least 16 characters, and only with this may the key read or take back what a subject counted. It cannot be combined with WRITE or ADMIN.',
    }),
  }),
})

const ApiKeyRef = builder.objectRef<ApiKey>('ApiKey')

builder.node(ApiKeyRef, {
  description: 'A key that identifies a page or a server.',
  id: { resolve: ({ id }) => String(id) },
  loadWithoutCache: (id, { nth, owner }) => nth.apiKeys.read(Number(id), owner),
  fields: (t) =>
    exposed(t, {
      label: ['String', 'What the key is for.'],
      prefix: ['String', 'The first characters of the key, by which logs identify it.'],
      grants: [[GrantRef], 'What the key allows.'],
      origins: [
        orNull(['String']),
        'The origins of the pages that may use the key. `*` means any page. Null means that the key is for servers, and no page may use it.',
      ],
      perMinute: [
        orNull('Int'),
        "The most changes a minute from one client address. Null means the server's default.",
      ],
      documents: [
        orNull(['ID']),
        'The IDs of the only documents that the key may run. Null means any document.',
      ],
      createdAt: ['DateTime', 'When the key was created.'],
      createdBy: [
        orNull('String'),
        'Who created the key: the prefix of a key, the subject of a token, `ADMIN`, or a user of the operating system. Null for keys of earlier versions.',
      ],
      expiresAt: [orNull('DateTime'), 'When the key becomes invalid. Null means never.'],
      revokedAt: [orNull('DateTime'), 'When the key was revoked. Null means that it was not.'],
      revokedBy: [
        orNull('String'),
        'Who revoked the key, as in `createdBy`. Null if it was not revoked, or by an earlier version.',
      ],
      lastUsedAt: [
        orNull('DateTime'),
        'When the key was last used, about a minute behind. Null means never.',
      ],
    }),
})

const CreatedApiKey = builder.objectRef<{ secret: string; key: ApiKey }>('CreatedApiKey').implement({
  description: 'A new API key. Only this response contains the key itself.',
  fields: (t) =>
    exposed(t, {
      secret: ['String', 'The key. Store it now: it is not shown again.'],
      key: [ApiKeyRef, 'Everything else about the key.'],
    }),
})

const CallerKind = addEnum('ViewerKind', 'How a caller was identified.', callerKinds)

const Viewer = builder.objectRef<Caller>('Viewer').implement({
  description: 'The caller, and what the caller may do.',
  fields: (t) =>
    exposed(t, {
      kind: [CallerKind, 'How the caller was identified.'],
      key: [orNull(ApiKeyRef), "The caller's API key. Null if the caller was identified in another way."],
      grants: [[GrantRef], 'What the caller may do.'],
      expiresAt: [orNull('DateTime'), "When the caller's credentials become invalid. Null means never."],
    }),
})

builder.queryFields((t) => ({
  viewer: t.field({
    type: Viewer,
    extensions: { right: none('everyone') },
    description: 'Returns the caller, and what the caller may do.',
    resolve: (_, _args, { caller }) => caller,
  }),
  apiKeys: t.connection(
    {
      type: ApiKeyRef,
      nullable: true,
      description: 'Returns all API keys, in the order of their creation.',
      extensions: { check: checks.page, right: admin },
      resolve(_, args, context, info) {
        const list = (page: Page<number>) => context.nth.apiKeys.list(page, context.owner)
        return connectionOf(args, context, info, apiKeyCursors, list, ({ id }) => id)
      },
    },
    { name: 'ApiKeyConnection', description: 'A page of API keys.' },
    { name: 'ApiKeyEdge', description: 'An API key in a list.' },
  ),
}))

builder.mutationFields((t) => ({
  createApiKey: t.field({
    type: CreatedApiKey,
    extensions: { right: admin, audited: ({ key }: { key: ApiKey }) => ({ name: key.prefix }) },
    description: 'Creates an API key. If you lose the response, revoke the key and create another one.',
    args: {
      label: nameArgument('What the key is for, in 1 to 191 characters.'),
      grants: t.arg({
        type: [GrantInput],
        required: true,
        description: 'What the key allows, as 1 to 100 grants.',
        extensions: { check: checks.grants },
      }),
      origins: t.arg.stringList({
        description:
          '1 to 100 origins of pages that may use the key, such as https://shop.example. ["*"] means any page. By default, the key is for servers, and no page may use it.',
        extensions: { check: originsFault },
      }),
      perMinute: t.arg.int({
        description:
          "The most changes a minute from one client address. By default, the server's limit applies.",
        extensions: { check: checks.perMinute },
      }),
      documents: t.arg.idList({
        description:
          'The IDs of 1 to 500 trusted documents, the only ones that the key may run. By default, it may run any document.',
        extensions: { check: checks.documentIds },
      }),
      expiresAt: t.arg({
        type: 'DateTime',
        description: 'When the key becomes invalid. By default, it never does.',
        extensions: { check: checks.future },
      }),
    },
    resolve: (_, { label, grants, origins, perMinute, documents, expiresAt }, { nth, owner, caller }) =>
      nth.apiKeys.create(
        {
          label,
          grants: grants.map(grantIn),
          origins: origins ?? null,
          perMinute: perMinute ?? null,
          documents: documents?.map(plainDocumentId) ?? null,
          expiresAt: expiresAt ?? null,
        },
        nameOf(caller),
        owner,
      ),
  }),
  revokeApiKey: t.field({
    type: ApiKeyRef,
    extensions: { right: admin, audited: ({ prefix }: ApiKey) => ({ name: prefix }) },
    description:
      'Revokes an API key. Within two seconds, every server refuses it. A repeat returns the same result.',
    args: {
      id: t.arg.id({
        required: true,
        description: 'The ID of the key.',
        extensions: { check: checks.apiKeyId },
      }),
    },
    resolve: (_, { id }, { nth, owner, caller }) =>
      nth.apiKeys.revoke(Number(decodeId(id).id), nameOf(caller), owner),
  }),
}))
