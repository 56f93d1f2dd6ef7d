import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFilesMax } from '../lib/open-files.ts'
import { checkOpenFiles } from './open-files.ts'

test('too few open files for a node are refused, few are told, with what to do', () => {
  expect(() => checkOpenFiles(40)).toThrow(/is 40, and a node needs 1024: raise it with `ulimit -n 1024`/)
  expect(checkOpenFiles(256)).toEqual([expect.stringMatching(/is 256, .* a busy node needs 1024/)])
  expect(checkOpenFiles(1024)).toEqual([])
  expect(checkOpenFiles(undefined)).toEqual([])
})

test('the limit is read where the system tells it', () => {
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
