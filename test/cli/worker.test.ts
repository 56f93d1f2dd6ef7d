import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { InviteWorker, WorkerRecord } from '../../src/schema/worker.ts'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()

const worker: WorkerRecord = {
  ...{ id: 'abc', name: 'gpu\u001b[2J-1', state: 'connected', agents: ['Painter'], running: 1, runs_max: 2 },
  ...{ created_at: '2026-01-01T00:00:00.000Z', expires_at: '2026-01-02T00:00:00.000Z' },
  ...{ connected_at: '2026-01-01T00:00:00.000Z', processes: ['0123456789abcdef'], seen_at: '2026-01-01T00:00:00.000Z' },
}

async function node() {
  const wanted: InviteWorker[] = []
  const { parts } = await runningNode(dataDir(), {
    workers: async () => [worker],
    inviteWorker: async (body) => {
      wanted.push(body)
      return { ...worker, state: 'invited', token: 'stoa-join_secret' }
    },
    revokeWorker: async (id) => ({ ...worker, id, state: 'revoked' }),
  })
  const run = (...argv: string[]) => cli(['worker', ...argv], { dataDir: dataDir(), parts })
  return { run, wanted }
}

test('stoa worker invite prints the token alone, and takes a time for its first use', async () => {
  const { run, wanted } = await node()
  const made = await run('invite', '--name', 'gpu-1', '--expires', '90m')
  expect(made).toMatchObject({ code: 0, stdout: 'stoa-join_secret\n' })
  expect(made.stderr).toContain('STOA_JOIN_TOKEN')
  expect(JSON.parse((await run('invite', '--json')).stdout)).toMatchObject({ token: 'stoa-join_secret' })
  expect(wanted).toEqual([{ name: 'gpu-1', expires_in_seconds: 5_400 }, {}])
  for (const name of ['gpu\u001b[2J', 'gpu\u202e1', 'x'.repeat(81)])
    expect(await run('invite', '--name', name)).toMatchObject({ code: 2 })
  for (const time of ['90', '0h', '31d', 'soon']) {
    expect(await run('invite', '--expires', time)).toMatchObject({ code: 2, stderr: expect.stringContaining('30d') })
  }
})

test('stoa worker list and revoke show workers, and no control characters of theirs', async () => {
  const { run } = await node()
  const list = await run('list')
  expect(list.stdout).toMatch(/^abc +connected +1 of 2 +01234567 .*Painter$/m)
  expect(list.stdout).not.toContain('\u001b[2J')
  expect(JSON.parse((await run('list', '--json')).stdout)).toMatchObject([{ id: 'abc' }])
  expect(await run('revoke', 'abc')).toMatchObject({ code: 0, stdout: expect.stringContaining('revoked gpu') })
  expect(await run('revoke')).toMatchObject({ code: 2, stderr: expect.stringContaining('stoa worker list') })
})

test('stoa worker says what is missing, and never shows the token', async () => {
  const run = (argv: string[], environment = {}) => cli(['worker', ...argv], { dataDir: dataDir(), environment })
  expect(await run([])).toMatchObject({ code: 2, stderr: expect.stringContaining('STOA_JOIN_TOKEN') })
  expect(await run([], { STOA_JOIN_TOKEN: 'stoa-join_made-up' })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('has no agents'),
  })
  await writeFile(
    join(dataDir(), 'agents.yaml'),
    JSON.stringify({ agents: [{ name: 'Painter', description: 'x', price: 0, model: 'builtin/echo' }] }),
  )
  const wrong = await run([], { STOA_JOIN_TOKEN: 'stoa-join_made-up' })
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('stoa worker invite') })
  expect(wrong.stderr).not.toContain('made-up')
  const path = join(dataDir(), 'join-token')
  await writeFile(path, 'stoa-join_made-up', { mode: 0o600 })
  expect((await run(['--join', `file:${path}`])).stderr).not.toContain('other users')
  const shown = await run(['--join', 'stoa-join_made-up'])
  expect(shown.stderr).toContain('other users of this machine can read the join token in the arguments')
  expect(shown.stderr).not.toContain('made-up')
  await chmod(path, 0o644)
  const open = await run(['--join', `file:${path}`])
  expect(open.stderr).toContain(`other users of this machine can read the join token in ${path}: chmod 600`)
  expect(await run(['--runs', '0'])).toMatchObject({ code: 2, stderr: expect.stringContaining('1 to 64') })
})
