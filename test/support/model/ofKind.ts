import fc from 'fast-check'

/** An alternative of `fc.oneof`: operations of a kind, with their parts. The higher its weight, the more frequent it is. */
export function ofKind<Kind extends string, Parts extends object = object>(
  kind: Kind,
  weight: number,
  parts?: { [Name in keyof Parts]: fc.Arbitrary<Parts[Name]> },
) {
  // A record of all these arbitraries has the type of their values.
  const arbitrary = fc.record({ kind: fc.constant(kind), ...parts }) as unknown as fc.Arbitrary<
    { kind: Kind } & Parts
  >
  return { weight, arbitrary }
}
