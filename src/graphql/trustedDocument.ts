import type { Page } from '../rules/counter.ts'
import { inputError } from '../rules/names.ts'
import { hashFault, plainDocumentId, type TrustedDocument } from '../rules/trustedDocument.ts'
import * as checks from './arguments.ts'
import { builder, exposed } from './builder.ts'
import { documentFault } from './documentLimits.ts'
import { connectionOf, documentCursors } from './lists.ts'
import { admin } from './rights.ts'

const TrustedDocumentRef = builder.objectRef<TrustedDocument>('TrustedDocument').implement({
  description:
    'A document that an administrator has added. Requests send its ID as `documentId`, and API keys may be bound to it.',
  fields: (t) => ({
    documentId: t.exposeID('id', {
      description: 'The ID that a tool gave it, usually a hash of its text.',
    }),
    ...exposed(t, {
      text: ['String', 'The text of the document.'],
      addedAt: ['DateTime', 'When it was added.'],
    }),
  }),
})

const TrustedDocumentInput = builder.inputType('TrustedDocumentInput', {
  description: 'A document to trust.',
  fields: (t) => ({
    documentId: t.id({
      required: true,
      description:
        'Its ID: 1 to 255 printable ASCII characters. With the prefix `sha256:`, which is removed, it must be the SHA-256 of the text.',
    }),
    text: t.string({ required: true, description: 'Its text, which must be valid.' }),
  }),
})

builder.queryFields((t) => ({
  trustedDocuments: t.connection(
    {
      type: TrustedDocumentRef,
      nullable: true,
      description: 'Returns the documents that were added, in the order of their IDs.',
      extensions: { check: checks.page, right: admin },
      resolve(_, args, context, info) {
        const list = (page: Page<string>) => context.nth.trustedDocuments.list(page, context.owner)
        return connectionOf(args, context, info, documentCursors, list, ({ id }) => id)
      },
    },
    { name: 'TrustedDocumentConnection', description: 'A page of trusted documents.' },
    { name: 'TrustedDocumentEdge', description: 'A trusted document in a list.' },
  ),
}))

builder.mutationFields((t) => ({
  addTrustedDocuments: t.field({
    type: [TrustedDocumentRef],
    extensions: { right: admin, audited: ({ length }: readonly TrustedDocument[]) => ({ count: length }) },
    description:
      'Adds documents, all or none. One that is already there changes nothing; an ID cannot get another text.',
    args: {
      documents: t.arg({
        type: [TrustedDocumentInput],
        required: true,
        description: '1 to 500 documents.',
        extensions: { check: checks.documents },
      }),
    },
    resolve(_, { documents }, { nth, owner }, { schema }) {
      for (const [index, { documentId, text }] of documents.entries()) {
        const fault = hashFault(documentId, text)
        if (fault) throw inputError({ message: fault, path: ['documents', index, 'documentId'] })
        const message = documentFault(schema, text)
        if (message) throw inputError({ message, path: ['documents', index, 'text'] })
      }
      return nth.trustedDocuments.add(
        documents.map(({ documentId, text }) => ({ id: plainDocumentId(documentId), text })),
        owner,
      )
    },
  }),
  removeTrustedDocument: t.field({
    type: TrustedDocumentRef,
    extensions: { right: admin, audited: ({ id }: TrustedDocument) => ({ name: id }) },
    description: 'Removes a document. Within two seconds, every server refuses it; open subscriptions go on.',
    args: { documentId: t.arg.id({ required: true, description: 'The ID of the document.' }) },
    resolve: (_, { documentId }, { nth, owner }) =>
      nth.trustedDocuments.remove(plainDocumentId(documentId), owner),
  }),
}))
