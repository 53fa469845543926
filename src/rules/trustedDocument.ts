import type { Fault } from './names.ts'

/** A document that an operator has added, by the ID that tools for clients gave it: usually a hash of its text. */
export interface TrustedDocument extends NewDocument {
  addedAt: Date
}

export interface NewDocument {
  /** As `plainDocumentId` gives it. */
  id: string
  text: string
}

/** The ID of a document without the prefix that GraphQL over HTTP gives to a SHA-256. */
export function plainDocumentId(id: string): string {
  return id.startsWith('sha256:') ? id.slice('sha256:'.length) : id
}

/** Why a text is not the ID of a document, with or without that prefix; undefined: it is one. */
export function documentIdFault(id: string): Fault | undefined {
  if (/^[\x21-\x7e]{1,255}$/.test(plainDocumentId(id))) return undefined
  return { message: 'must have 1 to 255 printable ASCII characters without spaces', limit: 255 }
}
