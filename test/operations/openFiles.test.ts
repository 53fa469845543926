import { describe, expect, it } from 'vitest'
import { openFilesWarning } from '../../src/operations/process.ts'

const limits = (open: string) => `Limit                     Soft Limit           Hard Limit           Units
Max processes             127235               127235               processes
Max open files            ${open.padEnd(20)} ${open.padEnd(20)} files
`

describe('the limit of open files', () => {
  it('warns where fewer files may be open than a busy server has connections', () => {
    expect(openFilesWarning(limits('1024'))).toBe(
      'Only 1024 files may be open, and each connection is one. Raise the limit (ulimit -n 10000) for more.',
    )
    for (const enough of [limits('10000'), limits('1048576'), limits('unlimited'), '']) {
      expect(openFilesWarning(enough)).toBeUndefined()
    }
  })
})
