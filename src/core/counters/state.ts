import { joinNames } from '../names.ts'
import type { Definition, Retention } from './definition.ts'

export interface CounterKey {
  namespace: string
  name: string
}

export interface CounterState extends CounterKey {
  value: number
  /** Undefined: never written or defined; its namespace's defaults apply. */
  definition: Definition | undefined
  /** When it was first written or defined; null: never. */
  createdAt: Date | null
  /** When its value was last changed; null: never. */
  updatedAt: Date | null
  /** Higher in the newer of two states. */
  revision: number
}

/** A counter, and the part of its definition that a history needs. */
export interface CounterRetention extends CounterKey {
  retention: Retention
  slots: number
}

/** A key as one string. */
export function keyText({ namespace, name }: CounterKey): string {
  return joinNames(namespace, name)
}

/** A counter that was never written or defined. */
export function unwritten({ namespace, name }: CounterKey, revision: number): CounterState {
  return { namespace, name, value: 0, definition: undefined, createdAt: null, updatedAt: null, revision }
}
