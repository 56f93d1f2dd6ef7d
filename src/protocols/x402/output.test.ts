import { describe, expect, test } from 'vitest'
import { startSeller } from '../../../test/support/started-seller.ts'
import { until } from '../../../test/support/until.ts'
import { base64, type TestPeer, type TestSeller, told } from '../../../test/support/x402-seller.ts'
import { AgentError, type AgentErrorCode } from '../../agents/runtime.ts'
import type { ServedAgent } from './exchange.ts'

async function start(work: ServedAgent['run'], changes: Partial<ServedAgent> = {}): Promise<TestSeller> {
  const seller = await startSeller()
  seller.addAgent({ ...changes })
  seller.work = work
  return seller
}
/** An agent that goes on when the test says so. */
function stepping() {
  const { promise: goOn, resolve: step } = Promise.withResolvers<void>()
  let aborted: boolean | undefined
  const work: ServedAgent['run'] = async ({ onOutput, signal }) => {
    onOutput?.('one ')
    await Promise.race([goOn, new Promise((resolve) => signal.addEventListener('abort', resolve))])
    aborted = signal.aborted
    signal.throwIfAborted()
    onOutput?.('two')
    return 'one two'
  }
  return { work, step, wasAborted: () => aborted }
}
async function pay(peer: TestPeer, changes: object) {
  const body = base64('task')
  const { payment, paymentId, correlation_id } = await peer.challenged({ body })
  await peer.send('x402.paid_request', peer.message({ payment, correlation_id, body, ...changes }))
  return { paymentId, correlation_id }
}

test('whoever asks is shown what the agent says, and then the same response', async () => {
  const { work, step } = stepping()
  const seller = await start(work)
  const peer = await seller.connect()
  const { correlation_id, paymentId } = await pay(peer, { stream: true })
  expect(await peer.next()).toEqual({ type: 'x402.output', message: { version: '1.0', correlation_id, text: 'one ' } })
  step()
  const last = await peer.next()
  expect(told(last)).toBe('one two')
  expect(last?.message).toMatchObject({ payment_id: paymentId, tx_hash: expect.stringMatching(/^0x/) })
})

test.each([
  ['does not ask', {}],
  ['sends something else under that name', { stream: 'true' }],
  ['sends null', { stream: null }],
])(
  'a client that %s sees the frames of the protocol and no others, and the agent shows nothing',
  async (_, changes) => {
    let wasShown: boolean | undefined
    const seller = await start(async ({ onOutput }) => {
      wasShown = onOutput !== undefined
      onOutput?.('part')
      return 'whole'
    })
    const peer = await seller.connect()
    await pay(peer, changes)
    const answer = await peer.next()
    expect(told(answer)).toBe('whole')
    expect(Object.keys(answer!.message).toSorted()).toEqual([
      'body',
      'correlation_id',
      'payment_id',
      'receipt',
      'seller_did',
      'seller_token_id',
      'tx_hash',
      'version',
    ])
    expect(told(await peer.request({ resource: 'free', ...changes }))).toBe('whole')
    expect(wasShown).toBe(false)
  },
)

test('T6 a buyer that has seen a part cannot take the rest back: the run ends, and is paid', async () => {
  const { work, step, wasAborted } = stepping()
  const seller = await start(work)
  const peer = await seller.connect()
  const { paymentId } = await pay(peer, { stream: true })
  expect((await peer.next())?.type).toBe('x402.output')
  peer.raw.abort(new Error('thank you'))
  // By now the seller has heard of it.
  expect(told(await (await seller.connect()).request({ resource: 'nobody' }))).toBe('UNKNOWN_RESOURCE')
  step()
  await until(
    async () =>
      (await seller.payments.get(paymentId))?.state === 'settled' || (await seller.payments.get(paymentId))?.txHash,
  )
  expect(wasAborted()).toBe(false)
})

test('a buyer that has seen nothing takes its request back as ever, and is not charged', async () => {
  const seller = await start(
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )
  const peer = await seller.connect()
  const { paymentId } = await pay(peer, { stream: true })
  await until(() => seller.runs.length === 1)
  peer.raw.abort(new Error('changed my mind'))
  await until(async () => (await seller.payments.get(paymentId))?.state === 'voided')
})

test('a run that fails after it has shown a part is not charged', async () => {
  const seller = await start(async ({ onOutput }) => {
    onOutput?.('part')
    await until(() => false, { timeoutMs: 60 }).catch(() => {})
    throw new Error('broken')
  })
  const peer = await seller.connect()
  const { paymentId } = await pay(peer, { stream: true })
  expect((await peer.next())?.type).toBe('x402.output')
  expect(told(await peer.next())).toBe('EXECUTION_FAILED')
  expect((await seller.payments.get(paymentId))?.state).toBe('voided')
})

describe('T6 T27 an agent that shows its work and runs into a limit', () => {
  const limits = [
    ['its time', 'AGENT_TIMEOUT'],
    ['its size', 'AGENT_OUTPUT_TOO_LARGE'],
  ] as const
  /** What a task can drive it to. */
  const driven =
    (code: AgentErrorCode, ahead = 'all that was asked for'): ServedAgent['run'] =>
    async ({ onOutput }) => {
      onOutput?.(ahead)
      await new Promise((resolve) => setTimeout(resolve, 30))
      throw new AgentError(code, 'the limit')
    }

  test.each(limits)('of %s has delivered what it has shown, and is owed for it', async (_what, code) => {
    const seller = await start(driven(code))
    const peer = await seller.connect()
    const { paymentId } = await pay(peer, { stream: true })
    expect((await peer.next())?.type).toBe('x402.output')
    const last = await peer.next()
    expect(told(last)).toBe('all that was asked for')
    expect(last?.message).toMatchObject({ payment_id: paymentId, receipt: expect.anything() })
    seller.clock.advance(2_000)
    await until(async () => (await seller.payments.get(paymentId))?.state === 'settled')
  })

  test.each(limits)('of %s and has shown nothing is not paid for', async (_what, code) => {
    const seller = await start(driven(code, ''))
    const peer = await seller.connect()
    const { paymentId } = await pay(peer, { stream: true })
    expect(told(await peer.next())).toBe('EXECUTION_FAILED')
    expect((await seller.payments.get(paymentId))?.state).toBe('voided')
  })

  test('and of whom nobody asks to be shown anything is not paid for', async () => {
    const seller = await start(driven('AGENT_TIMEOUT'))
    const peer = await seller.connect()
    const { paymentId } = await pay(peer, {})
    expect(told(await peer.next())).toBe('EXECUTION_FAILED')
    expect((await seller.payments.get(paymentId))?.state).toBe('voided')
  })

  test('shows nothing where its seller says `off`', async () => {
    const seller = await start(driven('AGENT_TIMEOUT'), { streaming: 'off' })
    const peer = await seller.connect()
    const { paymentId } = await pay(peer, { stream: true })
    expect(told(await peer.next())).toBe('EXECUTION_FAILED')
    expect((await seller.payments.get(paymentId))?.state).toBe('voided')
  })

  test('shows nothing before it is paid where its seller says `after_settlement`', async () => {
    const seen: string[] = []
    const seller = await start(
      async ({ onOutput }) => {
        seen.push((await seller.payments.counts()).owed === 0 ? 'settled' : 'owed')
        onOutput?.('part')
        return 'whole'
      },
      { streaming: 'after_settlement' },
    )
    const peer = await seller.connect()
    await pay(peer, { stream: true })
    for (let next = await peer.next(); next?.type === 'x402.output'; ) next = await peer.next()
    await pay(peer, {})
    expect(told(await peer.next())).toBe('whole')
    expect(seen).toEqual(['settled', 'settled'])
    expect(seller.settlement.attempts).toHaveLength(2)
  })
})

test('T7 an agent never waits for a peer that does not read, and what it says is not piled up', async () => {
  let told = 0
  const seller = await start(async ({ onOutput }) => {
    for (; told < 4_000; told++) {
      onOutput?.('x'.repeat(1_000))
      if (told % 100 === 0) await new Promise(setImmediate)
    }
    return 'done'
  })
  const peer = await seller.connect()
  const { paymentId } = await pay(peer, { stream: true })
  await until(
    async () =>
      (await seller.payments.get(paymentId))?.state === 'owed' || (await seller.payments.get(paymentId))?.txHash,
  )
  expect(told).toBe(4_000)
  let shown = 0
  let next = await peer.next()
  for (; next?.type === 'x402.output'; next = await peer.next()) shown += (next.message.text as string).length
  expect(shown).toBeLessThanOrEqual(512 * 1024)
  expect(next?.type).toBe('x402.response')
})

test('long output travels in frames that are bounded, and no character is cut in two', async () => {
  const text = '💸'.repeat(40_000)
  const { promise: seen, resolve } = Promise.withResolvers<void>()
  const seller = await start(async ({ onOutput }) => {
    onOutput?.(text)
    await seen
    return text
  })
  const peer = await seller.connect()
  await pay(peer, { stream: true })
  let shown = ''
  while (shown.length < text.length) {
    const piece = (await peer.next())!.message.text as string
    expect(piece.length).toBeLessThanOrEqual(32 * 1024)
    expect(piece.isWellFormed()).toBe(true)
    shown += piece
  }
  expect(shown).toBe(text)
  resolve()
})
