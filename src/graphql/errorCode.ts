import { type ErrorCode, errorCodes } from '../core/errors.ts'
import { builder } from './builder.ts'

// `Object.entries` loses the type of the keys.
const codes = Object.entries(errorCodes) as [ErrorCode, (typeof errorCodes)[ErrorCode]][]

builder.enumType('ErrorCode', {
  description:
    'All values of `extensions.code`. More may be added: treat unknown ones as INTERNAL_SERVER_ERROR.',
  values: Object.fromEntries(codes.map(([code, { description }]) => [code, { description }])),
})
