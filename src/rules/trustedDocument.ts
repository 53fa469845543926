import { hash } from 'node:crypto'
import type { Fault } from './names.ts'

/** A document that an operator has added, by the ID that tools for clients gave it: usually a hash of its text. */
export interface TrustedDocument extends NewDocument {
  addedAt: Date
}

export interface NewDocument {
  /** The id in the form that `plainDocumentId` returns. */
  id: string
  text: string
}

const SHA_256 = 'sha256:'
export const MAX_DOCUMENT_ID_LENGTH = 255

/** The ID of a document without the prefix that GraphQL over HTTP gives to a SHA-256. */
export function plainDocumentId(id: string): string {
  return id.startsWith(SHA_256) ? id.slice(SHA_256.length) : id
}

/** Why a document can't have its ID, which says that it is a hash; undefined: it can. */
export function hashFault(id: string, text: string): string | undefined {
  const isHash = !id.startsWith(SHA_256) || plainDocumentId(id) === hash('sha256', text)
  return isHash ? undefined : 'is not the SHA-256 of its text'
}

/** Why a text is not the ID of a document, with or without that prefix; undefined: it is one. */
export function documentIdFault(id: string): Fault | undefined {
  const plain = plainDocumentId(id)
  if (/^[\x21-\x7e]+$/.test(plain) && plain.length <= MAX_DOCUMENT_ID_LENGTH) return undefined
  const message = `must have 1 to ${MAX_DOCUMENT_ID_LENGTH} printable ASCII characters without spaces`
  return { message, limit: MAX_DOCUMENT_ID_LENGTH }
}
