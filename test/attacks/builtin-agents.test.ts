/** T7: megabytes for the free built-in agents, beside a peer that buys as usual. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { discover, startTestNode, stopTestNodes } from '../support/loopback-node.ts'

afterAll(stopTestNodes)

const CALLS = 150
const free = { description: 'd', price: 0n }

test('T7 T32: tasks of megabytes to built-in agents leave an honest peer’s calls as quick as before', {
  retry: 2,
}, async () => {
  const seller = await startTestNode({ key: generatePrivateKey() })
  const honest = await startTestNode({ key: generatePrivateKey(), bootstrap: [seller.addresses()[0]!] })
  const { id } = await seller.registerAgent({ name: 'Echo', ...free, model: 'builtin/echo' }, { persist: false })
  const attacked = [
    ['word-count', '\n'.repeat(4 * 1024 * 1024)],
    ['summarize', 'Mr. A a. '.repeat(110_000)],
    ['json-query', `.[]\n[${'[],'.repeat(690_000)}[]]`],
  ] as const
  const ids = await Promise.all(
    attacked.map(async ([name]) => {
      const agent = { name, ...free, model: `builtin/${name}` }
      return (await seller.registerAgent(agent, { persist: false })).id
    }),
  )
  await discover(honest, seller.peerId, 'Echo')
  const call = async () => {
    const from = performance.now()
    await honest.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(30_000) })
    return performance.now() - from
  }
  for (let i = 0; i < 20; i++) await call()
  const quiet = await p99(call)

  // The attackers' own work is not to be measured: their tasks are handed over inside the node.
  const stop = new AbortController()
  const attacks = ids.flatMap((attackedId, at) =>
    [1, 2].map(async () => {
      const signal = stop.signal
      while (!signal.aborted) await seller.ownAgents.test(attackedId, attacked[at]![1], signal).catch(() => {})
    }),
  )
  const under = await p99(call)
  stop.abort()
  await Promise.all(attacks)
  expect(under / quiet).toBeLessThan(3)
})

async function p99(call: () => Promise<number>): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < CALLS; i++) times.push(await call())
  return times.toSorted((a, b) => a - b)[Math.ceil(CALLS * 0.99) - 1]!
}
