/** The OpenAPI document of a live node, judged and used by tools of others. */
import type { Readable } from 'node:stream'
import { Validator } from '@seriousme/openapi-schema-validator'
import axios from 'axios'
import { OpenAPIClientAxios } from 'openapi-client-axios'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { OpenApi } from '../../src/http/api/openapi.ts'
import { startTestNode, stopTestNodes, type TestNode } from '../support/loopback-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let node: TestNode
let agentId: string
let document: OpenApi

beforeAll(async () => {
  devnet = await startDevnet()
  const settings = { rpcUrl: devnet.rpcUrl, facilitatorUrl: devnet.facilitatorUrl, apiEnabled: true }
  node = await startTestNode({ key: generatePrivateKey(), ...settings })
  const echo = { name: 'Echo', description: 'repeats', price: 0n, model: 'builtin/echo' }
  agentId = (await node.registerAgent(echo)).id
  document = (await (await fetch(`${node.apiUrl}/openapi.json`)).json()) as OpenApi
})
afterAll(async () => {
  await stopTestNodes()
  await devnet?.stop()
})

test('the document is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  const result = await validator.validate(JSON.parse(JSON.stringify(document)))
  expect(result.errors ?? []).toEqual([])
  expect([result.valid, validator.version]).toEqual([true, '3.1'])
})

/** What this node has none of: the answer is a refusal that the document names. */
const refused: Record<string, number> = {
  retryPayment: 404,
  getPayment: 404,
  // Its example is an agent of nobody.
  openChannel: 404,
  probeEntry: 404,
  testSource: 404,
  closeChannel: 404,
  withdrawFromChannel: 404,
  getChannel: 404,
  getReceipt: 404,
  getX402Receipt: 404,
  getApproval: 404,
  decideApprovals: 404,
  dismissAlarm: 404,
  // Its example is the address of nobody.
  importAgent: 422,
  removeImport: 404,
  approve: 404,
  deny: 404,
  // No gas, no purchase, and no token of that name.
  registerOnchain: 402,
  // Without a token.
  sendFromWallet: 401,
  refundPayment: 401,
  giveFeedback: 409,
  replaceTransaction: 404,
  abandonTransaction: 404,
  getReputation: 400,
  // These have their task, or have ended.
  executeOrder: 409,
  cancelOrder: 409,
  cancelWorkflow: 409,
}

test('a client generated from it can drive every operation', async () => {
  const api = new OpenAPIClientAxios({ definition: document as never, axiosConfigDefaults: { baseURL: node.apiUrl! } })
  const client = (await api.init()) as unknown as Record<
    string,
    (...args: unknown[]) => Promise<{ status: number; data: unknown }>
  >
  const config = { validateStatus: () => true, baseURL: node.apiUrl, adapter: axios.defaults.adapter }
  const ids = new Map<string, string>([
    ['agents', agentId],
    ['agentID', agentId],
    ['executions', '1'],
    ['payments', `0x${'0'.repeat(64)}`],
    ['channels', `0x${'0'.repeat(64)}`],
    ['receipts', `0x${'0'.repeat(64)}`],
    ['transactions', `0x${'0'.repeat(64)}`],
  ])
  const rows = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )
  expect(rows.map(({ operation }) => operation.operationId).filter((id) => client[id] === undefined)).toEqual([])
  const got: Record<string, number> = {}
  // What makes something comes before what reads it, and what removes it last.
  const order = ['post', 'get', 'put', 'patch', 'delete']
  for (const { path, method, operation } of rows.toSorted(
    (a, b) => order.indexOf(a.method) - order.indexOf(b.method),
  )) {
    const { operationId } = operation
    if (method === 'delete') await until(allEnded)
    const example = operation.requestBody?.content['application/json']?.example as Record<string, unknown> | undefined
    const body = example && JSON.parse(JSON.stringify(example).replaceAll(/"[a-z2-7]{16}"/g, `"${agentId}"`))
    const parameters = Object.fromEntries(
      (operation.parameters ?? [])
        .filter((parameter) => parameter.in === 'path')
        .map(({ name }) => [name, ids.get(path.split('/')[1]!) ?? ids.get(name) ?? 'local']),
    )
    const isStream = Object.keys(operation.responses['200']?.content ?? {}).join() === 'text/event-stream'
    // Axios names a form where it is given nothing to send.
    const response = await client[operationId]!(
      parameters,
      body ?? (method === 'get' ? undefined : {}),
      isStream ? { ...config, responseType: 'stream' } : config,
    )
    if (isStream) (response.data as Readable).destroy()
    got[operationId] = response.status
    expect(Object.keys(operation.responses)).toContain(String(response.status))
    const made = response.data as { id?: unknown }
    if (response.status === 201 && operationId !== 'registerAgent' && typeof made.id === 'string')
      ids.set(path.split('/')[1]!, made.id)
  }
  const expected = Object.fromEntries(rows.map(({ operation: { operationId } }) => [operationId, refused[operationId]]))
  const wrong = Object.entries(got).filter(([id, status]) =>
    expected[id] === undefined ? status >= 300 : status !== expected[id],
  )
  expect(wrong).toEqual([])
})

async function allEnded(): Promise<boolean> {
  const open = ['pending', 'executing', 'running']
  const orders = await node.orders.list({ limit: 50 })
  const workflows = await node.workflows.list({ limit: 50 })
  const all = [...orders.items, ...workflows.items]
  return all.every(({ status }) => !open.includes(status))
}
