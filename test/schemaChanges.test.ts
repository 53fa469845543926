import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  buildSchema,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isSpecifiedScalarType,
} from 'graphql'
import { expect, it } from 'vitest'
import { schema } from '../src/graphql/schema.ts'
import { GIT } from './support/server/firstRelease.ts'

const ROOT = join(import.meta.dirname, '..')
const git = (...args: string[]) => execFileSync('git', [...GIT, ...args], { cwd: ROOT, encoding: 'utf8' })
const versionOf = (json: string): string => JSON.parse(json).version

const version = versionOf(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const sections = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').split(/^## /m).slice(1)
const unreleased = sections.find((section) => section.startsWith('Unreleased\n')) ?? ''

it('CHANGELOG.md: has the version of package.json as its latest release', () => {
  const [latest] = sections.filter((section) => section !== unreleased)
  expect(latest?.split('\n')[0]).toBe(version)
})

it('CHANGELOG.md: names each change of the schema since the release under "Unreleased"', () => {
  const [before, after] = [membersOf(releasedSchema()), membersOf(schema)]
  const changed = [
    ...before.filter((member) => !after.includes(member)),
    ...after.filter((member) => !before.includes(member)),
  ]
  const isNamed = (member: string) => {
    const [, name] = /(\w+)(:|$)/.exec(member) ?? []
    return new RegExp(`\`[^\`]*\\b${name}\\b[^\`]*\``).test(unreleased)
  }
  expect(changed.filter((member) => !isNamed(member))).toEqual([])
})

/** The schema of the commit that set the version, or of the last one while that change is not committed. */
function releasedSchema(): GraphQLSchema {
  const commit = git('log', '-1', '--format=%H', '-G', '^  "version"', '--', 'package.json').trim()
  const isCommitted = versionOf(git('show', `${commit}:package.json`)) === version
  return buildSchema(git('show', `${isCommitted ? commit : 'HEAD'}:schema/schema.graphql`))
}

/** Types, fields, arguments, members of inputs, and values of enums, with their types. */
function membersOf(schema: GraphQLSchema): string[] {
  return Object.values(schema.getTypeMap()).flatMap((type) => {
    const { name } = type
    if (name.startsWith('__') || isSpecifiedScalarType(type)) return []
    if (isEnumType(type)) return type.getValues().map((value) => `${name}.${value.name}`)
    if (isInputObjectType(type)) {
      return Object.values(type.getFields()).map((field) => `${name}.${field.name}: ${field.type}`)
    }
    if (!isObjectType(type) && !isInterfaceType(type)) return [name]
    return Object.values(type.getFields()).flatMap((field) => [
      `${name}.${field.name}: ${field.type}`,
      ...field.args.map((argument) => `${name}.${field.name}.${argument.name}: ${argument.type}`),
    ])
  })
}
