/** T33 A node whose ledger is deleted or replaced while it runs promises nothing that it could not keep. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parsePrice } from '../../src/schema/amount.ts'
import { onServer } from '../support/ledger-engine.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let home: string
let seller: TestNode
let buyer: TestNode

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-gone-'))
  seller = await startTestNode({ dataDir: join(home, 'seller') })
  buyer = await startTestNode({ dataDir: join(home, 'buyer'), bootstrap: seller.node.addresses() })
})
afterEach(async () => {
  await buyer?.stop()
  await seller?.stop()
  await rm(home, { recursive: true, force: true })
})

const WAIT = { timeoutMs: 60_000 }
const tradingOf = async (node: TestNode) => (await node.node.status()).trading

// A ledger in PostgreSQL is not a file.
test.skipIf(onServer)('both sides stop trading while stoa.db is not there, and say why', async () => {
  const echo = { name: 'Paid', description: 'd', price: parsePrice('0.01'), model: 'builtin/echo' }
  const { id } = await seller.node.registerAgent(echo)
  const free = await seller.node.registerAgent({ ...echo, name: 'Free', price: 0n })
  await until(() => buyer.node.market.find(id) !== undefined && buyer.node.market.find(free.id) !== undefined, WAIT)
  const call = (agentId: string) =>
    buyer.node.execute({ agentId, input: 'x', signal: AbortSignal.timeout(10_000) }).catch((error: unknown) => error)

  const file = join(buyer.dataDir, 'stoa.db')
  await rename(file, `${file}.away`)
  await until(async () => (await tradingOf(buyer))?.state === 'stopped', WAIT)
  expect(await tradingOf(buyer)).toMatchObject({ code: 'LEDGER_LOST', reason: expect.stringContaining('stoa.db') })
  expect(await call(id)).toMatchObject({ code: 'LEDGER_LOST', message: expect.stringContaining('nothing was signed') })
  // Another file in its place is another ledger.
  await writeFile(file, '')
  expect((await tradingOf(buyer))?.state).toBe('stopped')
  await rename(`${file}.away`, file)
  await until(async () => (await tradingOf(buyer))?.state === 'open', WAIT)

  const sold = join(seller.dataDir, 'stoa.db')
  expect(await call(free.id)).toMatchObject({ output: 'x' })
  await rename(sold, `${sold}.away`)
  await until(async () => (await tradingOf(seller))?.state === 'stopped', WAIT)
  expect(await call(free.id)).toMatchObject({ message: expect.stringContaining('stopped selling') })
  await rename(`${sold}.away`, sold)
})
