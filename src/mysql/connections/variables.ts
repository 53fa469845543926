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

/** The condition of `show variables` and `show status`. Those that the server lacks are left out of the answer. */
export function named(names: readonly string[]): string {
  return `variable_name in (${names.map((name) => `'${name}'`).join(', ')})`
}
