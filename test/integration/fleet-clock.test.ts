/** T16: processes that share a ledger on machines whose clocks differ. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type Clock, systemClock } from '../../src/lib/clock.ts'
import { localAddress } from '../support/loopback.ts'
import { databaseOfNodes, discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const HOUR_MS = 3_600_000
/** A process looks at its clock every 3 s. */
const LOOK = { everyMs: 50 }
let devnet: Devnet

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await stopTestNodes()
  await devnet.stop()
})

async function openShop() {
  const database = await databaseOfNodes()
  const key = generatePrivateKey()
  const chain = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl }
  return {
    ...{ chain, account: privateKeyToAccount(key).address },
    start: (clock: Clock, bootstrap: string[] = []) =>
      startTestNode({ key, ...chain, bootstrap, databaseUrl: database.address(), ports: { clock } }),
  }
}

const ahead = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms })
const stateOf = async (node: TestNode) => (await node.status()).trading

test.each([
  ['an hour ahead', HOUR_MS, /^the clock of this machine is 3\d\d\d s ahead of the clock of the database.*: set/],
  ['an hour behind', -HOUR_MS, /^the clock of this machine is 3\d\d\d s behind the clock of the database.*: set/],
])('a process whose clock is %s does not start, and says so', async (_what, ms, message) => {
  const shop = await openShop()
  await expect(shop.start(ahead(ms))).rejects.toMatchObject({
    code: 'CLOCK_OFF',
    message: expect.stringMatching(message),
  })
})

test.each([HOUR_MS, -HOUR_MS])(
  'a process whose clock is set %i ms off neither sells nor buys until it is right',
  async (ms) => {
    const shop = await openShop()
    let offMs = 0
    const buyer = await startTestNode({ key: devnet.wallets.buyer.privateKey, ...shop.chain })
    const clock = { ...systemClock, now: () => systemClock.now() + offMs }
    const seller = await shop.start(clock, [localAddress(buyer.addresses())])
    await seller.registerAgent({ name: 'echo', description: 'x', price: PRICE, command: ['/bin/cat'] })
    await buyer.registerAgent({ name: 'other', description: 'x', price: PRICE, command: ['/bin/cat'] })
    const { id: agentId } = await discover(buyer, seller.peerId, 'echo')
    const { id: other } = await discover(seller, buyer.peerId, 'other')
    const buy = (node: TestNode, id: string, input: string) =>
      node.execute({ agentId: id, input, signal: AbortSignal.timeout(100_000) }).then(
        ({ output }) => output,
        ({ code }) => code,
      )
    expect(await buy(buyer, agentId, 'before')).toBe('before')

    offMs = ms
    await until(async () => (await stateOf(seller))?.state === 'stopped', LOOK)
    expect(await stateOf(seller)).toMatchObject({
      code: 'CLOCK_OFF',
      reason: expect.stringMatching(/3\d\d\d s (ahead|behind)/),
    })
    expect(await buy(buyer, agentId, 'meanwhile')).toBe('OVERLOADED')
    expect(await buy(seller, other, 'meanwhile')).toBe('CLOCK_OFF')

    offMs = 0
    await until(async () => (await stateOf(seller))?.state === 'open', LOOK)
    expect(await buy(buyer, agentId, 'after')).toBe('after')
    // What was sold before is settled, and nothing was charged meanwhile.
    await until(async () => (await seller.status()).settlement.pending === 0, LOOK)
    expect(await devnet.chain.balanceOf(shop.account)).toBe(2n * PRICE)
  },
)
