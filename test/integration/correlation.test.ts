/** One call is followed through the logs of both sides by its correlation id. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Logger } from '../../src/lib/logger.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

type Line = { message: string; fields: Record<string, unknown> }
function keeping() {
  const lines: Line[] = []
  const keep = (fields: object, message: string) => void lines.push({ message, fields: fields as Line['fields'] })
  const logger: Logger = { debug: keep, info: keep, warn: keep, error: keep, child: () => logger }
  return { lines, ports: { logger } }
}

const [sold, bought] = [keeping(), keeping()]
let devnet: Devnet
let seller: TestNode
let buyer: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  // Nobody settles for this seller.
  const nobody = { ...devnet, facilitatorUrl: 'http://127.0.0.1:9/' }
  seller = await startTestNode({ devnet: nobody, walletKey: generatePrivateKey(), ports: sold.ports })
  const agent = { description: 'one of two', price: 10_000n }
  await seller.node.registerAgent({ ...agent, name: 'echo', model: 'builtin/echo' }, { persist: false })
  await seller.node.registerAgent({ ...agent, name: 'fails', command: ['/bin/false'] }, { persist: false })
  const bootstrap = [seller.node.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({ devnet, walletKey: key, bootstrap, ports: bought.ports })
  await until(() => buyer.node.listings().length === 2)
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await devnet?.stop()
})

const idOf = (name: string) => buyer.node.listings().find((listing) => listing.name === name)!.id
const call = (name: string) =>
  buyer.node.execute({ agentId: idOf(name), input: 'hello', signal: AbortSignal.timeout(60_000) })
const told = (lines: readonly Line[], correlationId: unknown) =>
  lines.filter(({ fields }) => fields.correlation_id === correlationId).map(({ message }) => message)

test('a call that is paid and not settled, and one that fails, are told under the same id at both sides', async () => {
  const { correlation_id } = await call('echo')
  await until(() => told(sold.lines, correlation_id).includes('settlement waits for the facilitator'))
  expect(told(sold.lines, correlation_id)).toContain('a paid run is done')
  expect(told(bought.lines, correlation_id)).toContain('an order is completed')

  await expect(call('fails')).rejects.toThrow(expect.objectContaining({ code: 'EXECUTION_FAILED' }))
  const failure = bought.lines.find(({ message }) => message === 'an order failed')
  expect(told(sold.lines, failure?.fields.correlation_id)).toContain('a paid run failed')
})

test('no line of an order or a payment is without its id', async () => {
  const lines = [...sold.lines, ...bought.lines].filter(
    ({ fields }) => 'order_id' in fields || ('payment_id' in fields && fields.payment_id !== undefined),
  )
  expect(lines.length).toBeGreaterThan(3)
  expect(lines.filter(({ fields }) => typeof fields.correlation_id !== 'string')).toEqual([])
})
