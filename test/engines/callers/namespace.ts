/** The namespace of all that is counted under faults. */
export const NAMESPACE = 'faults'
