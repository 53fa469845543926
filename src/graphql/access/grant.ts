import { type Grant, MAX_NAMES, SCOPES, scopes } from '../../core/access/grants.ts'
import { builder } from '../builder.ts'

const ScopeRef = builder.enumType('Scope', {
  description: 'What a grant allows. WRITE includes ADD; ADMIN includes everything.',
  values: scopes,
})

export const GrantRef = builder.objectRef<Grant>('Grant').implement({
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

export const GrantInput = builder.inputType('GrantInput', {
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
export function grantIn({ namespace, names, ...grant }: typeof GrantInput.$inferInput): Grant {
  return { ...grant, scopes: [...new Set(grant.scopes)], namespace: namespace ?? null, names: names ?? null }
}
