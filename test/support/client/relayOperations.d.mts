export const RELAY_OPERATIONS: string
