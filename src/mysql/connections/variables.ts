/** A row of `show variables` and `show status`. */
export interface Variable {
  Variable_name: string
  Value: string
}

/** Values of variables and status, by name. */
export type Values = ReadonlyMap<string, string>

export function valuesOf(variables: readonly Variable[]): Values {
  return new Map(variables.map(({ Variable_name, Value }) => [Variable_name, String(Value)]))
}
