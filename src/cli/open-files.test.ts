import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFilesMax } from '../lib/open-files.ts'
import { checkOpenFiles } from './open-files.ts'

test('a limit of open files that is too low is refused, and a low limit is reported with its fix', () => {
  expect(() => checkOpenFiles(40)).toThrow(/is 40, and a node needs 1024: raise it with `ulimit -n 1024`/)
  expect(checkOpenFiles(256)).toEqual([expect.stringMatching(/is 256, .* a busy node needs 1024/)])
  expect(checkOpenFiles(1024)).toEqual([])
  expect(checkOpenFiles(undefined)).toEqual([])
})

test('reads the limit if the system reports it', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'stoa-limits-')), 'limits')
  writeFileSync(
    path,
    'Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n',
  )
  expect(openFilesMax(path)).toBe(1024)
  writeFileSync(path, 'Max open files            unlimited            unlimited            files\n')
  expect(openFilesMax(path)).toBeUndefined()
  expect(openFilesMax('/nowhere')).toBeUndefined()
})
