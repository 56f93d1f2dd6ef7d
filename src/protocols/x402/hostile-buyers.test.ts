/** T27: any mixture of honest and hostile buyers, failing agents, facilitators and restarts: what must hold in the end. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FakeSettlement, type Settling, unclear } from '../../../test/support/fake-settlement.ts'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { randomHex, signed, testWallet } from '../../../test/support/payments.ts'
import { until } from '../../../test/support/until.ts'
import { base64, TestSeller, told } from '../../../test/support/x402-seller.ts'
import { AgentError } from '../../agents/runtime.ts'
import type { PaymentEnvelope } from '../../schema/payment.ts'
import type { Hex } from '../../schema/primitives.ts'
import { openDatabase } from '../../store/database.ts'

const peers = ['alice', 'bob', 'mallory']
type Bought = { id: Hex; payment: PaymentEnvelope; correlation_id: string; owner: string; task: string }

const settling = fc.constantFrom<Settling>(
  { moves: true, answer: 'the transaction' },
  { moves: true, answer: 'hang' },
  { moves: true, answer: { kind: 'unclear', reason: 'half an answer' } },
  { moves: false, answer: { kind: 'settled', txHash: randomHex() } },
  { moves: false, answer: { kind: 'refused', reason: 'no money' } },
  unclear,
)
const action = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('sign' as const), peer: fc.nat(2), preemptive: fc.boolean() }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      which: fc.nat(9),
      peer: fc.nat(2),
      stranger: fc.boolean(),
      times: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      which: fc.nat(9),
      peer: fc.nat(2),
      stranger: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('settle' as const), how: settling }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fail' as const), fails: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(90_000) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'restart' as const }) },
)

test.each([false, true])(
  'T5, T6: one authorization, one run, one payment, for its own peer (settle first: %s)',
  async (settleFirst) => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
        const clock = new HandClock()
        const settlement = new FakeSettlement()
        const database = openDatabase({ path: ':memory:' })
        const options = { clock, settlement, database, settleFirst, attemptTimeoutMs: 2 }
        let seller = await new TestSeller(options).start()
        const runs: string[] = []
        let fails = false
        const staff = () => {
          seller.work = async ({ input }) => {
            runs.push(input)
            if (fails) throw new AgentError('AGENT_FAILED', 'no')
            return `result of ${input}`
          }
        }
        staff()
        const bought: Bought[] = []
        const underWay: Promise<void>[] = []
        const delivered: { bought: Bought; to: string; text: unknown }[] = []
        const note = async (one: Bought, to: string, answer: Promise<Parameters<typeof told>[0]>) => {
          const got = await answer.catch(() => undefined)
          if (got?.type === 'x402.response') delivered.push({ bought: one, to, text: told(got) })
        }

        for (const step of actions) {
          if (step.do === 'sign') {
            const owner = peers[step.peer]!
            const task = `task ${bought.length}`
            if (step.preemptive) {
              const { paymentId: id, envelope: payment } = signed(clock.now(), { wallet: testWallet(step.peer + 1) })
              bought.push({ id, payment, correlation_id: crypto.randomUUID(), owner, task })
            } else {
              const { paymentId: id, payment, correlation_id } = await (await seller.connect(owner)).challenged()
              bought.push({ id, payment, correlation_id, owner, task })
            }
          } else if (step.do === 'send' || step.do === 'ask') {
            const one = bought[step.which % Math.max(1, bought.length)]
            if (one === undefined) continue
            const by = step.stranger ? peers[step.peer]! : one.owner
            for (let time = 0; time < (step.do === 'send' ? step.times : 1); time++) {
              const peer = await seller.connect(by)
              const { correlation_id } = one
              const sent = { correlation_id, body: base64(one.task) }
              if (step.do === 'ask') underWay.push(note(one, by, peer.askResult(one.payment)))
              else if (one.payment.server_nonce === 'preemptive')
                underWay.push(note(one, by, peer.request({ ...sent, payment: one.payment })))
              else underWay.push(note(one, by, peer.paidRequest(one.payment, sent)))
            }
          } else if (step.do === 'settle') settlement.plan.push(step.how)
          else if (step.do === 'fail') fails = step.fails
          else if (step.do === 'wait') clock.advance(step.ms)
          else {
            await seller.stop()
            seller = await new TestSeller(options).start()
            staff()
          }
        }
        await Promise.all(underWay)
        // Everything owed comes to its end.
        await until(
          async () => {
            clock.advance(10_000)
            return (await seller.payments.counts()).owed === 0
          },
          { everyMs: 2 },
        )
        await seller.stop()

        for (const one of bought) {
          const stored = await seller.payments.get(one.id)
          const { from, nonce } = one.payment.payload!.authorization
          const isPaid = settlement.useOf(from, nonce).state === 'used'
          const ran = runs.filter((task) => task === one.task).length
          const results = delivered.filter(({ bought: which }) => which === one)
          // What was settled first may run again after it has failed, until it has been done once. So is what came late (D51).
          const isRunFirst = stored !== undefined && stored.task === undefined
          if (isRunFirst) expect(ran).toBeLessThanOrEqual(1)
          expect(settlement.attempts.filter((attempt) => attempt === nonce).length).toBeLessThanOrEqual(5)
          expect(stored?.state ?? 'never claimed').toMatch(isPaid ? /settled/ : /voided|unsettled|never claimed/)
          if (stored === undefined || stored.state === 'voided') expect([isPaid, results]).toEqual([false, []])
          if (ran === 0) expect(results).toEqual([])
          for (const { text, to } of results) {
            expect(text).toBe(`result of ${one.task}`)
            expect(to).toBe(stored!.peerId)
          }
          if (isPaid && isRunFirst) expect(await seller.exchanges.paidOutput(one.id)).toBe(`result of ${one.task}`)
        }
      }),
      { numRuns: 40 },
    )
  },
)
