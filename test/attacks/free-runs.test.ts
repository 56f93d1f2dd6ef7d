/** T31: strangers who run the free agents of a seller, and pay for nothing, keep nobody out who pays. */
import { expect, onTestFinished, test } from 'vitest'
import { DoorSales, freeCaller } from '../../src/protocols/doors/door-sales.ts'
import { runFree } from '../../src/protocols/x402/free-run.ts'
import { agentId, signed } from '../support/payments.ts'
import { TestSeller } from '../support/x402-seller.ts'

test('free runs without end leave places to those who pay', async () => {
  const seller = await new TestSeller({ slots: { concurrentMax: 4, waitingMax: 4 } }).start()
  onTestFinished(() => seller.stop())
  const { promise: gate, resolve: end } = Promise.withResolvers<string>()
  const free = { ...seller.agents.get('free')!, run: () => gate }
  const { signal } = new AbortController()
  const runs = Array.from({ length: 8 }, () => runFree(free, 'for nothing', freeCaller('http', signal), seller.deps))
  const ends = Promise.allSettled(runs)
  const { envelope } = signed(seller.clock.now())
  const request = { door: 'http', agentId, input: 'work', payment: envelope, boundTo: Buffer.from('') } as const
  expect(await new DoorSales(seller.deps).sell(request)).toMatchObject({ kind: 'result', output: 're: work' })
  end('done')
  expect((await ends).map(({ status }) => status)).toContain('fulfilled')
})
