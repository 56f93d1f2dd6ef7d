import { describe, expect, test } from 'vitest'
import { FakeSettlement } from '../../test/support/fake-settlement.ts'
import { requirements, signed as sign } from '../../test/support/payments.ts'
import { systemClock } from '../lib/clock.ts'
import { silentLogger } from '../lib/logger.ts'
import type { Facilitator, SettleOutcome } from './facilitator.ts'
import { withFallbacks } from './facilitator-fallbacks.ts'
import { openFacilitator } from './open-facilitator.ts'

const signal = AbortSignal.timeout(10_000)
const asked = requirements({})
const payment = () => sign(systemClock.now(), { requirements: asked }).envelope.payload!

/** One that answers as it is told, in turn. */
function facilitator(...answers: (SettleOutcome['kind'] | 'settles')[]) {
  const calls: string[] = []
  const made: Facilitator = {
    async settle({ authorization }) {
      calls.push(authorization.nonce)
      const kind = answers.shift() ?? 'unreached'
      return kind === 'settles' || kind === 'settled' ? { kind: 'settled', txHash: '0x12' } : { kind, reason: kind }
    },
    supports: async () => answers.length > 0,
    close: async () => {},
  }
  return Object.assign(made, { calls })
}

describe('several facilitators, in order', () => {
  test('the next settles where the one before cannot be reached, which asked nothing', async () => {
    const [first, second] = [facilitator('unreached', 'settles'), facilitator('settles')]
    const both = withFallbacks([first, second])
    expect(await both.settle(payment(), asked, signal)).toMatchObject({ kind: 'settled' })
    expect(await both.settle(payment(), asked, signal)).toMatchObject({ kind: 'settled' })
    expect([first.calls.length, second.calls.length]).toEqual([2, 1])
  })

  test.each(['unclear', 'down', 'refused'] as const)(
    'one that answered %s may have sent it: no other is asked',
    async (kind) => {
      const [first, second] = [facilitator(kind, kind), facilitator('settles')]
      const both = withFallbacks([first, second])
      const one = payment()
      for (let time = 0; time < 2; time++) expect(await both.settle(one, asked, signal)).toMatchObject({ kind })
      expect([first.calls.length, second.calls]).toEqual([2, []])
    },
  )

  test('another is asked for the same authorization once the chain says that it is unspent', async () => {
    const settlement = new FakeSettlement()
    const [first, second] = [facilitator('down', 'settles'), facilitator('settles')]
    const both = withFallbacks([first, second], settlement.chain)
    const one = payment()
    await both.settle(one, asked, signal)
    settlement.chainIsDown = true
    const before = [first.calls.length, second.calls.length]
    expect(before).toEqual([1, 0])
    settlement.chainIsDown = false
    expect(await both.settle(one, asked, signal)).toMatchObject({ kind: 'settled' })
    expect([first.calls.length, second.calls.length]).toEqual([1, 1])
  })

  test('while the chain does not answer it stays where it is', async () => {
    const settlement = new FakeSettlement()
    const [first, second] = [facilitator('down', 'down'), facilitator('settles')]
    const both = withFallbacks([first, second], settlement.chain)
    const one = payment()
    await both.settle(one, asked, signal)
    settlement.chainIsDown = true
    expect(await both.settle(one, asked, signal)).toMatchObject({ kind: 'down' })
    expect(second.calls).toEqual([])
  })

  test('what the chain shows as paid is brought to nobody', async () => {
    const settlement = new FakeSettlement()
    const [first, second] = [facilitator('unclear'), facilitator('settles')]
    const both = withFallbacks([first, second], settlement.chain)
    const one = payment()
    await both.settle(one, asked, signal)
    const txHash = settlement.pay(one.authorization)
    expect(await both.settle(one, asked, signal)).toEqual({ kind: 'settled', txHash })
    expect([first.calls.length, second.calls.length]).toEqual([1, 0])
  })
})

describe('facilitator.headers_env', () => {
  const settings = {
    facilitatorUrl: 'https://f.example',
    facilitatorFallbacks: [],
    facilitatorHeaders: ['X-Key=F_KEY'],
  }
  const deps = { clock: systemClock, logger: silentLogger, chain: undefined }
  const keys = (value: string | undefined) => ({ facilitatorKey: undefined, env: () => value })

  test.each([undefined, 'two\nlines'])('a variable that is %j is refused at the start, without its value', (value) => {
    const open = () => openFacilitator(settings, keys(value), deps)
    expect(open).toThrow(/facilitator.headers_env: F_KEY/)
    expect(open).not.toThrow(/two/)
  })
})
