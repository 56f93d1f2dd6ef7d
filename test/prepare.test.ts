/** What `npm install` does in a checkout once all is there. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const top = fileURLToPath(new URL('..', import.meta.url))
const { scripts } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { scripts: { prepare: string } }
const env = { ...process.env, PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) }
const prepare = (cwd: string) => spawnSync(scripts.prepare, { cwd, env, shell: true, encoding: 'utf8' })

test('the dashboard is there after npm install', () => {
  const page = join(top, 'dist/dashboard/index.html')
  const before = statSync(page, { throwIfNoEntry: false })?.mtimeMs ?? 0
  expect(prepare(top)).toMatchObject({ status: 0 })
  expect(statSync(page).mtimeMs).toBeGreaterThan(before)
})

test('npm install does not fail where the dashboard cannot be built', () => {
  expect(prepare(mkdtempSync(join(tmpdir(), 'stoa-prepare-')))).toMatchObject({ status: 0, stdout: '', stderr: '' })
})
