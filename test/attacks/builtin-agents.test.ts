/** T7: megabytes for the free built-in agents, beside a peer that buys as usual. */
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, test } from 'vitest'
import { expectBearable } from '../support/honest-calls.ts'
import { discover, startTestNode, stopTestNodes } from '../support/loopback-node.ts'

afterAll(stopTestNodes)

const TASKS = 3
const free = { description: 'd', price: 0n }

test('T7 T32: tasks of megabytes to built-in agents leave an honest peer’s calls as quick as before', async () => {
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
  const call = () => honest.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000) })

  // The attackers' own work is not to be measured: their tasks are handed over inside the node.
  const { signal } = new AbortController()
  const attack = (attackedId: string, task: string) => async () => {
    for (let n = 0; n < TASKS; n++) await seller.ownAgents.test(attackedId, task, signal).catch(() => {})
  }
  const attackers = ids.flatMap((attackedId, at) => [1, 2].map(() => attack(attackedId, attacked[at]![1])))
  await expectBearable(call, () => Promise.all(attackers.map((each) => each())))
})
