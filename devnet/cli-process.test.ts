import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { until } from '../test/support/until.ts'
import { startNode } from './cli-process.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-late-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

test('a node that does not listen in time is ended, so that another can have its directory', async () => {
  const pidFile = join(dir, 'pid')
  const stuck = join(dir, 'stuck.mjs')
  await writeFile(
    stuck,
    `import { renameSync, writeFileSync } from 'node:fs'
    writeFileSync(${JSON.stringify(`${pidFile}.new`)}, String(process.pid))
    renameSync(${JSON.stringify(`${pidFile}.new`)}, ${JSON.stringify(pidFile)})
    await new Promise(() => setInterval(() => {}, 60_000))`,
  )
  const late = new AbortController()
  const starting = startNode(['--data-dir', dir], { NODE_OPTIONS: `--import=${stuck}` }, { inTime: late.signal })
  const failed = expect(starting).rejects.toThrow('stoa start does not listen yet, and was ended')
  await until(() => existsSync(pidFile), { timeoutMs: 60_000 })
  const pid = Number(await readFile(pidFile, 'utf8'))
  late.abort()
  await failed
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
})
