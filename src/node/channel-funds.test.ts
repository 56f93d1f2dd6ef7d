import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { until } from '../../test/support/until.ts'
import { silentLogger } from '../lib/logger.ts'
import { createChannelFunds } from './channel-funds.ts'

const never = new AbortController().signal

test('T31 a peer with many made-up deposits delays the deposit of another by one check, and one that is proved waits for nobody', async () => {
  const checked: string[] = []
  const ends: (() => void)[] = []
  const deposits = {
    async deposit({ config, onProved }: { config: { payer: string }; onProved?(): void }) {
      checked.push(config.payer)
      if (config.payer === 'proved') onProved?.()
      await new Promise<void>((resolve) => void ends.push(resolve))
      return { kind: 'refused' as const, reason: 'the chain refuses the deposit' }
    },
  }
  const unused = {} as never
  const funds = createChannelFunds({
    ...{ clock: new HandClock(0), logger: silentLogger, store: unused, kept: unused, refunds: unused },
    ...{ deposits: deposits as never, relay: { trouble: async () => undefined } },
  })
  const send = (peerId: string, payer: string) => {
    const asked = { peerId, channelId: '0x1', config: { payer }, voucher: {}, deposit: {} }
    return funds.deposit(asked as never, never).catch((error: unknown) => String(error))
  }
  const proved = Array.from({ length: 20 }, () => send('honest', 'proved'))
  await until(() => checked.length === 20)
  const madeUp = Array.from({ length: 100 }, () => send('attacker', 'made up'))
  await until(() => checked.length === 36)
  const other = send('newcomer', 'of another')
  // The places of the made-up ones, which stand behind those that were proved.
  ends[20]!()
  ends[21]!()
  await until(() => checked.length === 38)
  expect(checked.slice(36)).toContain('of another')
  for (let ended = 0; ended < 121; ended++) {
    await until(() => ends.length > ended)
    ends[ended]!()
  }
  expect(new Set(await Promise.all([...proved, ...madeUp, other]))).toHaveProperty('size', 1)
})
