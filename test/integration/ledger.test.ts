/** T33: what becomes of a node whose ledger is used by another, or damaged, while it runs. */
import { closeSync, openSync, statSync, writeSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { discover, startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'
import { killNodeProcesses, type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
})

const start = (dir: string, more: string[] = []) =>
  startNodeProcess({
    args: ['--data-dir', dir, ...more],
    environment: { ETHEREUM_RPC_URL: 'http://127.0.0.1:9', FACILITATOR_URL: 'http://127.0.0.1:9' },
  })

async function ask({ ready }: NodeProcess, path: string, body?: object) {
  const response = await fetch(`${ready.api_url}${path}`, {
    ...(body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as { code?: string } }
}

test('a second node is refused though the files of the lock were deleted (D3, T16)', async () => {
  const dir = await testDir()
  const first = await start(dir)
  await rm(join(dir, 'lock.db'))
  await rm(join(dir, 'lock.pid'))
  await expect(start(dir)).rejects.toThrow(/another process has .*stoa\.db open/)
  expect((await ask(first, '/orders')).status).toBe(200)
  await first.stop()
})

test('a node whose ledger turns out to be damaged buys and sells nothing any more, and says why', async () => {
  const buyer = await startTestNode({ key: generatePrivateKey() })
  const bootstrap = buyer.addresses().find((address) => address.startsWith('/ip4/127.0.0.1/tcp/'))!
  const dir = await testDir()
  const flags = ['--name', 'echo', '--description', 'repeats', '--price', '0.01', '--model', 'builtin/echo']
  const node = await start(dir, ['--bootstrap', bootstrap, ...flags])
  const { id: agentId } = await discover(buyer, node.ready.peer_id, 'echo')
  ruinBehind(join(dir, 'stoa.db'))

  const answered = await until(async () => {
    const one = await ask(node, '/payments')
    return one.status === 503 ? one : undefined
  })
  expect(answered.body.code).toBe('STORE_DAMAGED')
  expect(node.log()).toContain('trading has stopped')
  expect((await ask(node, `/agents/${agentId}/execute`, { task: 'x' })).body.code).not.toBeUndefined()
  expect((await ask(node, '/orders', { agent_id: agentId, price: '0.01', task: 'x' })).body.code).toBe('STORE_DAMAGED')
  const bought = buyer.execute({ agentId, input: 'x', signal: AbortSignal.timeout(20_000) })
  await expect(bought).rejects.toMatchObject({
    code: 'OVERLOADED',
    message: expect.stringContaining('stopped selling'),
  })
  node.child.kill('SIGKILL')
})

/** As a disk does that loses pages: all but the first. Another connection's write has the node read them anew. */
function ruinBehind(path: string): void {
  const other = new DatabaseSync(path)
  other.exec("PRAGMA busy_timeout = 5000; INSERT INTO kv VALUES ('other', 1); PRAGMA wal_checkpoint(TRUNCATE)")
  const descriptor = openSync(path, 'r+')
  for (let at = 4096; at < statSync(path).size; at += 4096) writeSync(descriptor, Buffer.alloc(512, 0xa5), 0, 512, at)
  closeSync(descriptor)
  other.close()
}
