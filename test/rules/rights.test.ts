import { expect, it } from 'vitest'
import { NthError } from '../../src/rules/errors.ts'
import {
  type ApiKey,
  type Caller,
  type CountingScope,
  countedSubjectFor,
  EVERYTHING,
  type Grant,
  grantFault,
  grantOf,
  isOnceOnly,
  limitFor,
  type Scope,
  subjectFor,
} from '../../src/rules/rights.ts'

const TARGET = { namespace: 'shop', name: 'likes' }
const TOKEN_TEXT = 'a-random-token-16'

const onceOnly = (...scopes: Scope[]): Grant => ({ ...grantOf(...scopes), onceOnly: true })

function keyWith(origins: string[] | null, ...grants: Grant[]): Caller {
  const key: ApiKey = {
    id: 1,
    hash: '',
    prefix: '',
    label: '',
    grants,
    origins,
    perMinute: null,
    documents: null,
    createdAt: new Date(0),
    createdBy: null,
    expiresAt: null,
    revokedAt: null,
    revokedBy: null,
    lastUsedAt: null,
  }
  return { kind: 'KEY', identity: 'key 1', grants, key }
}

const server = (...grants: Grant[]) => keyWith(null, ...grants)
const page = (...grants: Grant[]) => keyWith(['*'], ...grants)
const token = (...grants: Grant[]): Caller => ({
  kind: 'TOKEN',
  identity: 'token i\nann',
  subject: 'ann',
  grants,
})
const anyone = (...grants: Grant[]): Caller => ({ kind: 'ANONYMOUS', identity: '', grants })

/** The subject, or the code and details of the error. */
function subjectOf(caller: Caller, named?: string, scope: CountingScope = 'ADD') {
  return outcomeOf(() => subjectFor(caller, scope, TARGET, named))
}

/** The same for a call that reads what the subject counted, or takes it back. */
function countedSubjectOf(caller: Caller, named: string, scope: CountingScope = 'ADD') {
  return outcomeOf(() => countedSubjectFor(caller, scope, TARGET, named))
}

function outcomeOf(call: () => string | undefined) {
  try {
    return call()
  } catch (error) {
    if (!(error instanceof NthError)) throw error
    const { code, ...details } = error.extensions
    return Object.keys(details).length > 0 ? [code, details] : code
  }
}

it.each<CountingScope>(['ADD', 'NUMBER'])(
  'subjectFor: a token names only its own subject with %s',
  (scope) => {
    const other: Scope = scope === 'ADD' ? 'NUMBER' : 'ADD'
    for (const grant of [grantOf(scope), onceOnly(scope)]) {
      expect(subjectOf(token(grant), 'ann', scope)).toBe('ann')
      expect(subjectOf(token(grant), 'bob', scope)).toBe('FORBIDDEN')
      expect(subjectOf(token(grant), 'Ann', scope)).toBe('FORBIDDEN')
      expect(subjectOf(token(grant, grantOf('WRITE')), 'bob', scope)).toBe('bob')
      const elsewhere = { ...grantOf('WRITE'), names: ['other'] }
      expect(subjectOf(token(grant, elsewhere), 'bob', scope)).toBe('FORBIDDEN')
      expect(subjectOf(token(grant), 'ann', other)).toBe('FORBIDDEN')
    }
  },
)

it('subjectFor: takes the subject of the token if a grant with onceOnly names none', () => {
  expect(subjectOf(token(onceOnly('ADD')))).toBe('ann')
  expect(subjectOf(token(grantOf('ADD')))).toBeUndefined()
  expect(subjectOf(token(onceOnly('ADD'), grantOf('ADD')))).toBeUndefined()
  expect(subjectOf(token(onceOnly('ADD'), grantOf('WRITE')))).toBeUndefined()
})

it('subjectFor: refuses keys to count without a subject if all their grants have onceOnly', () => {
  for (const caller of [server, page]) {
    expect(subjectOf(caller(onceOnly('ADD')))).toBe('FORBIDDEN')
    expect(subjectOf(caller(onceOnly('ADD'), { ...grantOf('ADD'), prefix: 'x' }))).toBe('FORBIDDEN')
    expect(subjectOf(caller(onceOnly('ADD'), { ...grantOf('ADD'), prefix: 'li' }))).toBeUndefined()
    expect(subjectOf(caller(onceOnly('NUMBER'), grantOf('WRITE')), undefined, 'NUMBER')).toBe('FORBIDDEN')
  }
  expect(isOnceOnly(server(onceOnly('ADD')), 'ADD', TARGET)).toBe(true)
  expect(isOnceOnly(server(onceOnly('READ')), 'ADD', TARGET)).toBe(false)
})

it('subjectFor: asks a key for pages with onceOnly for a subject of at least 16 characters', () => {
  const short = ['BAD_USER_INPUT', { argument: 'subject', limit: 16 }]
  expect(subjectOf(page(onceOnly('ADD')), '123456789012345')).toEqual(short)
  expect(subjectOf(page(onceOnly('ADD')), '😀'.repeat(15))).toEqual(short)
  expect(subjectOf(page(onceOnly('NUMBER')), '1', 'NUMBER')).toEqual(short)
  expect(subjectOf(page(onceOnly('ADD')), '1234567890123456')).toBe('page:1234567890123456')
  expect(subjectOf(page(onceOnly('ADD')), '😀'.repeat(16))).toBe(`page:${'😀'.repeat(16)}`)
  expect(subjectOf(page(onceOnly('ADD')), 'page:67890123456')).toBe('page:page:67890123456')
  expect(subjectOf(page(onceOnly('ADD')), 'page:6789012345')).toEqual(short)
  expect(subjectOf(page(onceOnly('ADD'), grantOf('ADD')), '1')).toBe('page:1')
  expect(subjectOf(server(onceOnly('ADD')), '1')).toBe('1')
  expect(subjectOf(token(onceOnly('ADD')), 'ann')).toBe('ann')
})

it('subjectFor: stores the subjects of every key for pages under names of their own, which fit', () => {
  for (const grant of [grantOf('ADD'), grantOf('WRITE'), EVERYTHING, onceOnly('ADD')]) {
    const [longest, tooLong] = ['😀'.repeat(250), '😀'.repeat(251)]
    expect(subjectOf(page(grant), longest)).toBe(`page:${longest}`)
    expect(subjectOf(page(grant), tooLong)).toEqual(['BAD_USER_INPUT', { argument: 'subject', limit: 250 }])
    expect(subjectOf(server(grant), tooLong)).toBe(tooLong)
  }
  for (const invalid of ['', 'a\n', '\ud800'])
    expect(subjectOf(page(grantOf('ADD')), invalid)).toEqual(['BAD_USER_INPUT', { argument: 'subject' }])
  expect(subjectOf(page(grantOf('ADD')))).toBeUndefined()
})

it('countedSubjectFor: lets a page read and take back what it counted only with onceOnly, and others with any grant', () => {
  for (const grants of [
    [grantOf('ADD')],
    [grantOf('WRITE')],
    [EVERYTHING],
    [onceOnly('ADD'), grantOf('ADD')],
  ]) {
    expect(countedSubjectOf(page(...grants), TOKEN_TEXT)).toBe('FORBIDDEN')
    for (const caller of [server, anyone]) expect(countedSubjectOf(caller(...grants), 'ann')).toBe('ann')
    expect(countedSubjectOf(token(...grants), 'ann')).toBe('ann')
  }
  const elsewhere = { ...grantOf('ADD'), names: ['other'] }
  expect(countedSubjectOf(page(onceOnly('ADD'), elsewhere), TOKEN_TEXT)).toBe(`page:${TOKEN_TEXT}`)
  expect(countedSubjectOf(page(onceOnly('NUMBER'), grantOf('ADD')), TOKEN_TEXT, 'NUMBER')).toBe(
    `page:${TOKEN_TEXT}`,
  )
  expect(countedSubjectOf(page(grantOf('NUMBER')), TOKEN_TEXT, 'NUMBER')).toBe('FORBIDDEN')
})

it('subjectFor: lets everyone else who may count name any subject', () => {
  expect(subjectOf(anyone(grantOf('ADD')), '1')).toBe('1')
  expect(subjectOf(anyone(grantOf('ADD')))).toBeUndefined()
  expect(subjectOf(anyone(grantOf('READ')), '1')).toBe('UNAUTHENTICATED')
  expect(subjectOf(server(grantOf('READ')), TOKEN_TEXT)).toBe('FORBIDDEN')
})

it('limitFor: bounds plain additions and numbers by the grants that allow them', () => {
  const caller = server(
    { ...onceOnly('ADD', 'NUMBER'), maxDelta: 9, maxCount: 8 },
    { ...grantOf('ADD'), maxDelta: 3 },
  )
  expect([limitFor(caller, 'ADD', TARGET), limitFor(caller, 'ADD', TARGET, 'bob')]).toEqual([3, 9])
  expect([limitFor(caller, 'NUMBER', TARGET), limitFor(caller, 'NUMBER', TARGET, 'bob')]).toEqual([0, 8])
})

it('grantFault: refuses a grant whose onceOnly would do nothing', () => {
  for (const scope of ['WRITE', 'ADMIN'] as const)
    expect(grantFault(onceOnly('ADD', scope))).toMatchObject({ path: ['onceOnly'] })
  expect(grantFault(onceOnly('ADD', 'NUMBER', 'READ', 'DEFINE'))).toBeUndefined()
})
