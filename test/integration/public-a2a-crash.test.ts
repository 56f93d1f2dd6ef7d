/** T16 T23 T36 over A2A: a seller is killed while a stranger buys. The same message again, and the chain, judge. */
import { randomUUID } from 'node:crypto'
import type { Task } from '@a2a-js/sdk'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { paymentKeys as keys, X402_EXTENSION } from '../../src/schema/a2a.ts'
import { a2aClient, asTask, resultOf, send, stateOf } from '../support/a2a-client.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { openPublicSeller } from '../support/public-process.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
let devnet: Devnet

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await killNodeProcesses()
  await devnet?.stop()
})

async function tell(url: string, message: ReturnType<typeof send>): Promise<Task> {
  // The card names the address outside, whatever the port of the process.
  const here: typeof fetch = (to, init) => fetch(new URL(new URL(String(to)).pathname, url), init)
  const client = await a2aClient(url.replace('/x402/', '/a2a/'), undefined, here)
  const serviceParameters = { 'A2A-Extensions': X402_EXTENSION }
  return asTask(await client.sendMessage(message, { serviceParameters } as never))
}

type Outcome = { state: 'COMPLETED' | 'FAILED'; runs: number }
test.each([
  ['before the payment came', undefined, { state: 'COMPLETED', runs: 1 }],
  ['at seller:claimed', 'seller:claimed', { state: 'FAILED', runs: 0 }],
  ['at seller:executed', 'seller:executed', { state: 'FAILED', runs: 1 }],
  ['at seller:owed', 'seller:owed', { state: 'COMPLETED', runs: 1 }],
  ['at seller:settled', 'seller:settled', { state: 'COMPLETED', runs: 1 }],
] as [string, string | undefined, Outcome][])(
  'killed %s: the task goes on, or says that nothing was charged',
  async (_, faultPoint, { state, runs }) => {
    const key = generatePrivateKey()
    const payer = privateKeyToAccount(key).address
    await devnet.fund(payer, FUNDS)
    const seller = await openPublicSeller(devnet)
    const first = await seller.start(faultPoint === undefined ? {} : { faultPoint })
    const task = `task ${faultPoint}`
    const asked = await tell(first.at('repeat'), send(task, { messageId: randomUUID() }))
    expect(stateOf(asked)).toBe('INPUT_REQUIRED')
    const signer = new x402Client().register('eip155:84532', new ExactEvmScheme(privateKeyToAccount(key)))
    const payment = await signer.createPaymentPayload(
      asked.status!.message!.metadata![keys.required] as PaymentRequired,
    )
    const metadata = { [keys.status]: 'payment-submitted', [keys.payload]: payment }
    const paying = send('', { taskId: asked.id, messageId: randomUUID(), metadata })
    if (faultPoint === undefined) first.child.kill('SIGKILL')
    const lost = faultPoint === undefined ? undefined : tell(first.at('repeat'), paying).catch(() => undefined)
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await lost

    const second = await seller.start()
    const answers = [await tell(second.at('repeat'), paying), await tell(second.at('repeat'), paying)]
    expect(answers.map((answer) => [answer.id, stateOf(answer)])).toEqual([
      [asked.id, state],
      [asked.id, state],
    ])
    const isPaid = state === 'COMPLETED'
    if (isPaid) expect(answers.map(resultOf)).toEqual([task, task])
    else expect(JSON.stringify(answers[0]?.status)).toMatch(/not charged/)
    await until(async () => (await seller.earned()) === (isPaid ? PRICE : 0n), { everyMs: 100 })
    await second.stop()
    expect(await seller.ran()).toEqual(Array(runs).fill(task))
    expect(await seller.earned()).toBe(isPaid ? PRICE : 0n)
    expect(await devnet.chain.balanceOf(payer)).toBe(FUNDS - (isPaid ? PRICE : 0n))
  },
)
