/** T42 ADR-46: whose an A2A task of a stranger is, asked by clients of others in each version and binding. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Task } from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { X402_EXTENSION } from '../../src/schema/a2a.ts'
import { a2aClient, asTask, bindings, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let home: string
let paidId: string
const runs: string[] = []
/** Tasks whose agent works until it is told to end. */
const gates = new Map<string, PromiseWithResolvers<void>>()

const start = async () => {
  const walletKey = devnet.wallets.seller.privateKey
  seller = await startTestNode({ devnet, walletKey, dataDir: join(home, 'seller'), public: { port: 0 } })
  const definition = { name: 'Paid echo', description: 'Says it again', price: PRICE }
  const run = async (task: string) => {
    runs.push(task)
    await gates.get(task)?.promise
    return task
  }
  paidId = (await seller.node.registerAgent(definition, { persist: false, run })).id
}

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-public-a2a-'))
  devnet = await startDevnet()
  await start()
})
afterAll(async () => {
  for (const { resolve } of gates.values()) resolve()
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const earned = () => devnet.chain.balanceOf(devnet.wallets.seller.address)
const named = (id: string) => ({ tenant: '', id, historyLength: undefined, metadata: undefined })
const by = (secret?: string) => {
  return { serviceParameters: { 'A2A-Extensions': X402_EXTENSION, ...(secret && { 'Stoa-Caller': secret }) } } as never
}
const clientOf = (binding = bindings[0]!) => a2aClient(`${seller.publicUrl}/a2a/${paidId}`, binding)

async function asked(client: Client, text: string, secret?: string): Promise<Task> {
  const task = asTask(await client.sendMessage(send(text), by(secret)))
  expect(stateOf(task)).toBe('INPUT_REQUIRED')
  return task
}

/** The message that pays for a task that waits. */
async function payment({ id, status }: Task) {
  const required = status?.message?.metadata?.['x402.payment.required'] as PaymentRequired
  const signer = new ExactEvmScheme(privateKeyToAccount(devnet.wallets.buyer.privateKey))
  const payload = await new x402Client().register('eip155:84532', signer).createPaymentPayload(required)
  const metadata = { 'x402.payment.status': 'payment-submitted', 'x402.payment.payload': payload }
  return send('the payment', { taskId: id, metadata })
}

/** A task that was paid for, and whose agent works. */
async function atWork(client: Client, secret?: string) {
  const text = `work ${randomUUID()}`
  const gate = Promise.withResolvers<void>()
  gates.set(text, gate)
  const waiting = await asked(client, text, secret)
  const answer = client.sendMessage(await payment(waiting), by(secret))
  await until(() => runs.includes(text))
  return { id: waiting.id, text, gate, done: answer.then(asTask) }
}

/** What a caller gets of a task, by each method that names one. */
async function touched(client: Client, id: string, secret?: string) {
  const get = client.getTask(named(id), by(secret))
  const cancel = client.cancelTask(named(id), by(secret))
  const follow = (async () => {
    for await (const _ of client.resubscribeTask(named(id), by(secret))) return
  })()
  const answers = await Promise.allSettled([get, follow, cancel])
  return answers.map(({ status }) => status)
}

describe.each(bindings)('$version over $binding', (binding) => {
  test('a task that was begun with a secret is found with that secret only', async () => {
    const client = await clientOf(binding)
    const [mine, other] = [randomUUID(), randomUUID()]
    const before = await earned()
    const work = await atWork(client, mine)
    for (const secret of [undefined, other]) {
      expect(await touched(client, work.id, secret)).toEqual(['rejected', 'rejected', 'rejected'])
      const said = send('more', { taskId: work.id })
      await expect(client.sendMessage(said, by(secret))).rejects.toThrow(/not found/i)
    }
    expect(stateOf(await client.getTask(named(work.id), by(mine)))).toBe('WORKING')
    work.gate.resolve()
    const done = await work.done
    expect([stateOf(done), resultOf(done)]).toEqual(['COMPLETED', work.text])
    await expect(client.getTask(named(work.id), by(other))).rejects.toThrow(/not found/i)
    await expect(client.getTask(named(work.id), by())).rejects.toThrow(/not found/i)
    expect(resultOf(await client.getTask(named(work.id), by(mine)))).toBe(work.text)
    expect((await earned()) - before).toBe(PRICE)
  })

  test('its maker cancels it while its agent works, and pays nothing', async () => {
    const client = await clientOf(binding)
    const mine = randomUUID()
    const before = await earned()
    const work = await atWork(client, mine)
    expect(stateOf(await client.cancelTask(named(work.id), by(mine)))).toBe('CANCELED')
    expect(stateOf(await work.done)).toBe('CANCELED')
    expect(await earned()).toBe(before)
  })

  test('without a secret a task is read by its id; while it waits it can be canceled, and paid for it cannot', async () => {
    const client = await clientOf(binding)
    const before = await earned()
    const unpaid = await asked(client, 'never paid')
    expect(stateOf(await client.cancelTask(named(unpaid.id), by()))).toBe('CANCELED')
    const work = await atWork(client)
    await expect(client.cancelTask(named(work.id), by())).rejects.toThrow(/Stoa-Caller|cannot be canceled/)
    await expect(client.cancelTask(named(work.id), by(randomUUID()))).rejects.toThrow(/not found/i)
    work.gate.resolve()
    expect(resultOf(await work.done)).toBe(work.text)
    expect(resultOf(await client.getTask(named(work.id), by()))).toBe(work.text)
    expect((await earned()) - before).toBe(PRICE)
  })

  test('nobody lists tasks, and nobody is told of them elsewhere', async () => {
    const client = await clientOf(binding)
    const secret = randomUUID()
    const { id } = await asked(client, 'listed?', secret)
    for (const caller of [by(), by(secret)]) {
      // Older versions of A2A have no list.
      const listed = client.listTasks({ tenant: '' } as never, caller).then(
        ({ tasks }) => tasks,
        () => [],
      )
      expect(await listed).toEqual([])
      const push = { tenant: '', taskId: id, id: 'x', url: 'https://example.org', token: '' }
      // The client reads in the card that there are none.
      await expect(async () => client.createTaskPushNotificationConfig(push as never, caller)).rejects.toThrow(/Push/)
    }
    const methods = [['CreateTaskPushNotificationConfig', { taskId: id, id: 'x', url: 'https://example.org' }]] as const
    const more = ['Get', 'Delete'].map(
      (verb) => [`${verb}TaskPushNotificationConfig`, { taskId: id, id: 'x' }] as const,
    )
    const list = ['ListTaskPushNotificationConfigs', { taskId: id }] as const
    for (const [method, params] of [...methods, ...more, list]) {
      const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      const answer = await fetch(`${seller.publicUrl}/a2a/${paidId}`, { method: 'POST', headers, body })
      expect([method, await answer.json()]).toMatchObject([method, { error: { code: expect.any(Number) } }])
    }
  })
})

test('a secret that protects nothing is refused, and the card says what one is', async () => {
  const at = `${seller.publicUrl}/a2a/${paidId}`
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: randomUUID() } })
  for (const secret of ['', 'short', 'x'.repeat(129), `${randomUUID()} ${randomUUID()}`]) {
    const headers = { 'content-type': 'application/json', 'a2a-version': '1.0', 'stoa-caller': secret }
    const answer = await fetch(at, { method: 'POST', headers, body })
    expect([answer.status, await answer.json()]).toMatchObject([400, { error: { code: 'INVALID_REQUEST' } }])
  }
  const card = (version: string) =>
    fetch(`${at}/.well-known/agent-card.json`, { headers: { 'a2a-version': version } }).then((answer) => answer.json())
  const scheme = { apiKeySecurityScheme: { location: 'header', name: 'Stoa-Caller' } }
  expect(await card('1.0')).toMatchObject({ securitySchemes: { caller: scheme } })
  expect(await card('1.0')).not.toHaveProperty('securityRequirements')
  expect(await card('0.3')).toMatchObject({
    securitySchemes: { caller: { type: 'apiKey', in: 'header', name: 'Stoa-Caller' } },
  })
  expect(await card('0.3')).not.toHaveProperty('security')
})

test('a message id is that of its secret: another stranger may choose the same', async () => {
  const client = await clientOf()
  const secrets = [randomUUID(), randomUUID()]
  const [one, same, other] = await Promise.all(
    [secrets[0], secrets[0], secrets[1]].map(async (secret) =>
      asTask(await client.sendMessage(send('same words', { messageId: '1' }), by(secret))),
    ),
  )
  expect(same!.id).toBe(one!.id)
  expect(other!.id).not.toBe(one!.id)
})

test('T31 who answers a task again and again, and pays nothing, makes no later answer longer', async () => {
  const client = await clientOf()
  const task = await asked(client, 'talked about')
  const say = () => send('x'.repeat(10_000), { taskId: task.id, metadata: { more: 'y'.repeat(50_000) } })
  for (let said = 0; said < 30; said++)
    expect(stateOf(asTask(await client.sendMessage(say(), by())))).toBe('INPUT_REQUIRED')
  const before = await client.getTask(named(task.id), by())
  expect(JSON.stringify(before).length).toBeLessThan(1_000_000)
  const done = asTask(await client.sendMessage(await payment(before), by()))
  expect([stateOf(done), resultOf(done)]).toEqual(['COMPLETED', 'talked about'])
})

test('one account has at most 32 tasks at once at this door too', async () => {
  const text = `many ${randomUUID()}`
  const gate = Promise.withResolvers<void>()
  gates.set(text, gate)
  const client = await clientOf()
  const messages = await Promise.all(Array.from({ length: 34 }, async () => payment(await asked(client, text))))
  const answers = messages.map(async (message) => asTask(await client.sendMessage(message, by())))
  const over = await Promise.race([Promise.any(answers), ...answers])
  expect(over.status?.message?.parts[0]?.content).toMatchObject({
    value: expect.stringMatching(/32 requests|too many/),
  })
  gate.resolve()
  const states = (await Promise.all(answers)).map(stateOf)
  expect(states.filter((state) => state === 'INPUT_REQUIRED').length).toBeGreaterThanOrEqual(2)
})

test('a task belongs to its secret after a restart of the node', async () => {
  const secret = randomUUID()
  const before = await clientOf()
  const done = asTask(await before.sendMessage(await payment(await asked(before, 'kept', secret)), by(secret)))
  expect(resultOf(done)).toBe('kept')
  await seller.stop()
  await start()
  const client = await clientOf()
  const receiptsOf = ({ status }: Task) => {
    const receipts = status?.message?.metadata?.['x402.payment.receipts'] as { extensions: Record<string, object> }[]
    return receipts.map(({ extensions }) => extensions)
  }
  await expect(client.getTask(named(done.id), by())).rejects.toThrow(/not found/i)
  await expect(client.getTask(named(done.id), by(randomUUID()))).rejects.toThrow(/not found/i)
  const found = await client.getTask(named(done.id), by(secret))
  expect(resultOf(found)).toBe('kept')
  // The same receipt: its address has another port in this test only.
  const [first, again] = [receiptsOf(done), receiptsOf(found)]
  expect(again.map((extensions) => Object.keys(extensions))).toEqual([['offer-receipt', 'stoa-receipt']])
  expect(again[0]!['stoa-receipt']).toEqual(first[0]!['stoa-receipt'])
})
