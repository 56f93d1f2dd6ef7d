/** T9: conversations over A2A. A model that is shown what it may know of its caller. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { a2aClient, asTask, send } from '../support/a2a-client.ts'
import { type FakeLlm, startFakeLlm } from '../support/fake-llm.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let llm: FakeLlm
let seller: TestNode
let url: string

beforeAll(async () => {
  llm = await startFakeLlm()
  seller = await startTestNode({ environment: { MODEL_KEY: 'sk-test-0123456789abcdef' }, ports: { fetch: llm.fetch } })
  const agent = { name: 'llm', description: 'Talks.', price: 0n, model: 'openai/gpt-5', api_key_env: 'MODEL_KEY' }
  url = `${seller.url}/a2a/${(await seller.node.registerAgent(agent, { persist: false })).id}`
})
afterAll(async () => {
  await seller?.stop()
  await llm?.[Symbol.asyncDispose]()
})

const shown = () => (llm.requests.at(-1)!.body.messages ?? []).slice(1).map(({ content }) => content)
const say = async (text: string, contextId = '') =>
  asTask(await (await a2aClient(url)).sendMessage(send(text, { contextId })))

test('T9 an agent remembers the conversation a message belongs to, and no other', async () => {
  const first = await say('my name is Ann')
  expect(shown()).toEqual(['my name is Ann'])
  const second = await say('my name is Bob')
  expect(shown()).toEqual(['my name is Bob'])
  await say('who am I?', first.contextId)
  expect(shown()).toEqual(['my name is Ann', 'an answer', 'who am I?'])
  await say('and I?', second.contextId)
  expect(shown()).toEqual(['my name is Bob', 'an answer', 'and I?'])
})

test('T9 the node’s own caller and those of A2A never meet', async () => {
  const id = url.split('/').at(-1)!
  const { contextId } = await say('a secret of A2A')
  await seller.node.execute({ agentId: id, input: 'a local task', signal: new AbortController().signal })
  expect(shown()).toEqual(['a local task'])
  await say('again', contextId)
  expect(shown()).not.toContain('a local task')
})

test('T9 a conversation named by a word that others may guess has no memory', async () => {
  for (const contextId of ['default', '1', 'local', 'a2a:', 'did:peer:0z6Mk']) {
    await say('my name is Eve', contextId)
    await say('who am I?', contextId)
    expect(shown(), contextId).toEqual(['who am I?'])
  }
  const own = randomUUID()
  await say('my name is Joe', own)
  await say('who am I?', own)
  expect(shown()).toContain('my name is Joe')
})
