/** T16 T17: a process that loses its lease while the work that it has begun runs on. The chain is the judge. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { all } from '../../src/store/query.ts'
import { useBuyerMarket } from '../support/buyer-market.ts'
import { askServer } from '../support/ledger-engine.ts'
import { discover } from '../support/loopback-node.ts'
import { openSellerProcesses } from '../support/seller-processes.ts'
import { endLease } from '../support/server-ledgers.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const WAIT = { timeoutMs: 90_000, everyMs: 50 }
const market = useBuyerMarket()

/** Two processes. A run notes its task and who runs it, and waits for a file with the name of its task. */
async function startShop() {
  const shop = await openSellerProcesses((name, marks) => {
    const script = `task=$(cat); echo "$task ${name}" >> "$0/runs"; until [ -e "$0/$task" ]; do sleep 0.05; done; printf %s "$task"`
    return [{ name: 'wait', description: 'x', price: 0.01, command: ['/bin/sh', '-c', script, marks] }]
  }, market)
  const { start, marks } = shop
  const [a, b] = await Promise.all([start('a'), start('b')])
  return {
    ...shop,
    processes: { a, b },
    runs: async () => (await readFile(join(marks, 'runs'), 'utf8').catch(() => '')).split('\n').filter(Boolean),
    letFinish: (task: string) => writeFile(join(marks, task), ''),
  }
}

test('work of a process that slept through its lease is given up, charged to nobody, and never delivered late', async () => {
  const { processes, seller, account, address, runs, letFinish } = await startShop()
  const { id: agentId } = await discover(market.buyer, seller, 'wait', WAIT)
  const addresses = () => market.buyer.listings().find(({ id }) => id === agentId)!.addrs
  await until(() => Object.values(processes).every(({ ready }) => addresses().includes(ready.addresses[0]!)), WAIT)
  const buy = (input: string) =>
    market.buyer.execute({ agentId, input, signal: AbortSignal.timeout(100_000) }).then(
      ({ output }) => output,
      ({ code }) => code,
    )
  const states = async () =>
    (await askServer(address, all<{ state: string }>('SELECT state FROM payments'))).map(({ state }) => state)

  const first = buy('first')
  await until(async () => (await runs()).length === 1, WAIT)
  const runner = (await runs())[0] === 'first a' ? processes.a : processes.b
  runner.child.kill('SIGSTOP')
  await endLease(address, runner.child.pid!)
  await until(async () => (await states()).join() === 'voided', WAIT)
  // Its agent ends now, and its process wakes up with a result that is worth nothing any more.
  await letFinish('first')
  runner.child.kill('SIGCONT')
  expect((await runner.exited).code).not.toBe(0)
  expect(runner.log()).toContain('others have taken over the work of this process')
  expect(await first).toBe('EXECUTION_FAILED')
  expect([await states(), await market.devnet.chain.balanceOf(account)]).toEqual([['voided'], 0n])

  await letFinish('second')
  expect(await buy('second')).toBe('second')
  await until(async () => (await states()).includes('settled'), WAIT)
  expect(await market.devnet.chain.balanceOf(account)).toBe(PRICE)
  expect((await runs()).map((line) => line.split(' ')[0])).toEqual(['first', 'second'])
}, 300_000)
