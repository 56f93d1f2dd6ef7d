/** T8: a request over A2A may have any shape. It is never told that the node failed. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestNode, type TestNode } from '../support/test-node.ts'

let node: TestNode
let agentUrl: string

beforeAll(async () => {
  node = await startTestNode()
  const definition = { name: 'free', description: 'Says it again', price: 0n, model: 'builtin/echo' }
  const { id } = await node.node.registerAgent(definition, { persist: false })
  agentUrl = `${node.url}/a2a/${id}`
})
afterAll(() => node?.stop())

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
const strange: Json[] = [null, 5, 'x', true, {}, [null], [5], { a: null }]

/** The value with each of its parts replaced by each strange value, one at a time. */
function* mutants(value: Json, put: (changed: Json) => Json = (changed) => changed): Generator<Json> {
  for (const other of strange) yield put(other)
  if (typeof value !== 'object' || value === null) return
  for (const [key, part] of Object.entries(value)) {
    yield* mutants(part, (changed) =>
      put(Array.isArray(value) ? value.with(Number(key), changed) : { ...value, [key]: changed }),
    )
  }
}

const common = { messageId: 'a', taskId: 't', contextId: 'c', extensions: ['e'], referenceTaskIds: ['r'] }
const current = {
  ...{ ...common, role: 'ROLE_USER', metadata: { 'x402.payment.payload': { x402Version: 2 } } },
  parts: [{ text: 'hi', metadata: {} }, { data: { a: 1 } }, { url: 'x' }, { raw: 'aa' }],
}
const old = {
  ...{ ...common, kind: 'message', role: 'user', metadata: { 'x402.payment.payload': { x402Version: 2 } } },
  parts: [
    { kind: 'text', text: 'hi' },
    { kind: 'data', data: { a: 1 } },
    { kind: 'file', file: { bytes: 'aa' } },
  ],
}
const configuration = { acceptedOutputModes: ['text/plain'], historyLength: 1 }
const sentBy = (message: Json) => ({ message, configuration, metadata: {} })
const rpc = (method: string, params: Json) => ({ jsonrpc: '2.0', id: 1, method, params })

test.each<[string, string, string, Json]>([
  ['SendMessage', '1.0', '', rpc('SendMessage', sentBy(current))],
  ['SendStreamingMessage', '1.0', '', rpc('SendStreamingMessage', sentBy(current))],
  ['GetTask', '1.0', '', rpc('GetTask', { id: 'x', historyLength: 1 })],
  ['CancelTask', '1.0', '', rpc('CancelTask', { id: 'x' })],
  ['ListTasks', '1.0', '', rpc('ListTasks', { contextId: 'x', status: 'TASK_STATE_WORKING', pageSize: 1 })],
  ['message/send of 0.3', '0.3', '', rpc('message/send', sentBy(old))],
  ['message/stream of 0.3', '0.3', '', rpc('message/stream', sentBy(old))],
  ['tasks/get of 0.3', '0.3', '', rpc('tasks/get', { id: 'x', historyLength: 1 })],
  ['tasks/cancel of 0.3', '0.3', '', rpc('tasks/cancel', { id: 'x' })],
  ['tasks/resubscribe of 0.3', '0.3', '', rpc('tasks/resubscribe', { id: 'x' })],
  [
    ...(['pushNotificationConfig of 0.3', '0.3', ''] as const),
    rpc('tasks/pushNotificationConfig/set', { taskId: 'x', pushNotificationConfig: { url: 'y' } }),
  ],
  ['message:send over HTTP+JSON', '1.0', '/rest/message:send', sentBy(current)],
  ['message:stream over HTTP+JSON', '1.0', '/rest/message:stream', sentBy(current)],
  [
    'message:send of 0.3 over HTTP+JSON',
    '0.3',
    '/rest/v1/message:send',
    sentBy({ ...current, content: [{ text: 'a' }] }),
  ],
])('%s', async (_, version, path, body) => {
  const faults: string[] = []
  let answers = 0
  for (const mutant of mutants(body)) {
    const headers = { 'content-type': 'application/json', 'a2a-version': version }
    const response = await fetch(agentUrl + path, { method: 'POST', headers, body: JSON.stringify(mutant) })
    const text = await response.text()
    expect(response.status).not.toBe(429)
    answers++
    if (response.status >= 500 || /-32603|"INTERNAL"/.test(text)) faults.push(`${JSON.stringify(mutant)} → ${text}`)
  }
  expect(faults).toEqual([])
  expect(answers).toBeGreaterThan(20)
})
