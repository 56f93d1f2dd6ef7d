/** Who hears what: a language-model agent that repeats all it is shown, and callers over real connections. */
import { generatePrivateKey } from 'viem/accounts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FakeLlm, startFakeLlm } from '../support/fake-llm.ts'
import { discover, startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'

let llm: FakeLlm
let seller: TestNode
let agentId: string
const model = { name: 'parrot', description: 'Repeat.', price: 0n, model: 'ollama/parrot' }
const page = { limit: 50 }

beforeEach(async () => {
  llm = await startFakeLlm()
  llm.behave({ kind: 'repeat' })
  seller = await startTestNode({ key: generatePrivateKey(), ports: { fetch: llm.fetch } })
  agentId = (await seller.registerAgent(model)).id
})
afterEach(async () => {
  await stopTestNodes()
  await llm[Symbol.asyncDispose]()
})

async function startCaller(): Promise<TestNode> {
  const caller = await startTestNode({ key: generatePrivateKey(), bootstrap: seller.addresses().slice(0, 1) })
  await discover(caller, seller.peerId, 'parrot')
  return caller
}
const say = async (node: TestNode, input: string) =>
  (await node.execute({ agentId, input, signal: AbortSignal.timeout(20_000) })).output

test('T9: two callers of one language-model agent never see each other’s conversation', async () => {
  const [alice, bob] = [await startCaller(), await startCaller()]
  await say(alice, 'the secret of alice')
  const firstOfBob = await say(bob, 'a word of bob')
  const secondOfAlice = await say(alice, 'what did I say?')
  const own = await say(seller, 'what did they say?')
  const secondOfBob = await say(bob, 'and I?')
  // It remembers its caller …
  expect(secondOfAlice).toContain('the secret of alice')
  expect(secondOfBob).toContain('a word of bob')
  // … and nobody else.
  for (const heard of [firstOfBob, secondOfBob]) expect(heard).not.toMatch(/alice|did they say/)
  expect(secondOfAlice).not.toMatch(/bob|did they say/)
  expect(own).not.toMatch(/alice|bob/)
  // What the model was shown is what was answered: nothing was cut away afterwards.
  expect(llm.requests).toHaveLength(5)

  const { items } = await seller.sessions.list(agentId, page)
  expect(items.map(({ caller_id, exchanges }) => [caller_id, exchanges.map(({ input }) => input)])).toEqual(
    [
      [alice.did, ['the secret of alice', 'what did I say?']],
      [bob.did, ['a word of bob', 'and I?']],
      ['local', ['what did they say?']],
    ].toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
  )
})

test('D19: a buyer has a session with an agent elsewhere: its own, under the name `local`', async () => {
  const alice = await startCaller()
  await say(alice, 'hello')
  llm.behave({ kind: 'status', status: 400 })
  await expect(say(alice, 'and fail')).rejects.toMatchObject({ code: 'EXECUTION_FAILED' })
  const { session, next } = await alice.sessions.get(agentId, 'local', page)
  expect(session).toMatchObject({
    agent_id: agentId,
    caller_id: 'local',
    exchanges: [{ input: 'hello' }, { input: 'and fail', output: null, error: expect.any(String) }],
  })
  expect(next).toBeUndefined()
  expect((await alice.sessions.list(agentId, page)).items.map(({ id }) => id)).toEqual([session.id])
  // What the caller has with the agent is not what the seller has with it itself.
  await expect(seller.sessions.get(agentId, 'local', page)).rejects.toThrow(/no session/)
})
