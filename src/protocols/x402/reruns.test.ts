/** T7 D45: a run that is paid for and fails is run again when its buyer asks, and not as often as it asks. */
import { afterEach, expect, test } from 'vitest'
import { signed } from '../../../test/support/payments.ts'
import { base64, TestSeller, told } from '../../../test/support/x402-seller.ts'

let seller: TestSeller
afterEach(() => seller.stop())

test('T7 D45 a task that always fails runs five times at once for its payment, then with growing pauses, and honest ones go on', async () => {
  seller = await new TestSeller({ settleFirst: true }).start()
  seller.work = ({ input }) => (input === 'bad' ? Promise.reject(new Error('broken')) : Promise.resolve('good'))
  const { envelope } = signed(seller.clock.now())
  const peer = await seller.connect()
  expect(told(await peer.request({ payment: envelope, body: base64('bad') }))).toBe('EXECUTION_FAILED')
  const ask = async () => told(await peer.askResult(envelope))
  const runsOf = (input: string) => seller.runs.filter((run) => run.input === input).length
  for (let asked = 0; asked < 50; asked++) await ask()
  expect([runsOf('bad'), await ask()]).toEqual([5, 'OVERLOADED'])
  seller.clock.jump(60 * 60 * 1000)
  expect(await ask()).toBe('OVERLOADED')
  seller.clock.jump(-60 * 60 * 1000)
  for (const pauseMs of [5_000, 10_000, 20_000]) {
    seller.clock.advance(pauseMs)
    expect([await ask(), await ask()]).toEqual(['EXECUTION_FAILED', 'OVERLOADED'])
  }
  expect(runsOf('bad')).toBe(8)

  const other = signed(seller.clock.now())
  expect(told(await peer.request({ payment: other.envelope, body: base64('fine') }))).toBe('good')
  seller.clock.advance(40_000)
  seller.work = async () => 'at last'
  expect([await ask(), await ask()]).toEqual(['at last', 'at last'])
})
