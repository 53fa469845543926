import { errorCodes } from '../core/errors.ts'
import { builder } from './builder.ts'

builder.enumType('ErrorCode', {
  description:
    'All values of `extensions.code`. More may be added: treat unknown ones as INTERNAL_SERVER_ERROR.',
  values: errorCodes,
})
