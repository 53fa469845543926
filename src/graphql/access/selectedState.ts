import { type GraphQLResolveInfo, getNamedType } from 'graphql'
import { createMeasure, sumBelow } from '../selections.ts'

/** Fields with the state of what a mutation returns; the others are its definition, or what the mutation set. */
const selectsStateOf: Record<string, (info: GraphQLResolveInfo) => boolean> = {
  Counter: selectsAny('value', 'valueIn', 'history', 'revision', 'createdAt', 'updatedAt'),
  Sequence: selectsAny('group', 'groups', 'createdAt'),
  SequenceGroup: selectsAny('sequence', 'lastValue', 'lastFormatted', 'revision', 'updatedAt'),
}

/** What a mutation set; a repeat with the same key returns the present state instead. */
const selectsWhatWasSet = selectsAny('nextValue', 'nextFormatted')

export function selectsState(info: GraphQLResolveInfo, hasKey: boolean): boolean {
  const selects = selectsStateOf[getNamedType(info.returnType).name]?.(info) ?? false
  return selects || (hasKey && selectsWhatWasSet(info))
}

function selectsAny(...names: string[]) {
  const count = createMeasure((sum, field, below) =>
    field ? sum + Number(names.includes(field.name.value)) : sum + below,
  )
  return (info: GraphQLResolveInfo) => sumBelow(count, info) > 0
}
