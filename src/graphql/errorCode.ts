import { type ErrorCode, errorCodes } from '../core/errors.ts'
import { builder } from './builder.ts'

// Object.entries forgets that its keys are the table's own.
const codes = Object.entries(errorCodes) as [ErrorCode, (typeof errorCodes)[ErrorCode]][]

builder.enumType('ErrorCode', {
  description: 'Every `extensions.code`. More may come: treat unknown ones as INTERNAL_SERVER_ERROR.',
  values: Object.fromEntries(codes.map(([code, { description }]) => [code, { description }])),
})
