import { describe, expect, test } from 'vitest'
import type { PaymentRecord } from '../../src/schema/payment-record.ts'
import { resultFixture } from '../support/fake-api.ts'
import { address, cli, listing, result, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const networks = [
  ['TEST', 'eip155:84532', /Base Sepolia, test money/],
  ['LIVE', 'eip155:8453', /Base, real money/],
] as const

describe.each(networks)('D37: %s is shown beside the amounts of a node on %s', (word, network, said) => {
  const run = async (...argv: string[]) => {
    const { parts } = await runningNode(dataDir(), {
      status: async () => ({ ...status, network }),
      orders: async () => ({ items: [], next: undefined }),
      payments: async () => ({ items: [], next: undefined }),
      receipts: async () => ({ items: [], next: undefined }),
      workflows: async () => ({ items: [], next: undefined }),
      approvals: async () => [],
      alarms: async () => [],
      channels: async () => ({ items: [], next: undefined }),
      tokens: async () => [],
      searchAgents: async () => ({ items: [listing({ network })], next: undefined }),
      execute: async () => result({ payment: { ...resultFixture().payment!, network } }),
    })
    return cli(argv, { dataDir: dataDir(), parts })
  }

  test.each([
    [['order', 'list']],
    [['payment', 'list']],
    [['channel', 'list']],
    [['receipts', 'list']],
    [['workflow', 'list']],
    [['approvals', 'list']],
    [['alarms', 'list']],
    [['token', 'list']],
    [['wallet', 'balance']],
  ])('on `stoa %s`, on standard error', async (argv) => {
    const shown = await run(...argv)
    expect(shown.stderr).toMatch(new RegExp(`${word} .*${said.source}`))
    expect(shown.stdout).not.toMatch(word)
    expect((await run(...argv, '--json')).stderr).not.toMatch(word)
  })

  test('on `stoa wallet`, `stoa status`, `stoa agent discover` and the cost of a call', async () => {
    expect((await run('wallet')).stdout).toMatch(`${address}  on ${network}  ${word}`)
    expect((await run('status')).stdout).toMatch(`on ${network}  ${word}`)
    expect((await run('agent', 'discover')).stdout).toMatch(`1 agent  ${word}`)
    expect((await run('agent', 'execute', '--agent-id', 'abc', '--task', 'x')).stderr).toMatch(
      `${word}  paid 0.01 USDC`,
    )
  })
})

test('D37: an agent of another network is marked where agents are listed', async () => {
  const { parts } = await runningNode(dataDir(), {
    searchAgents: async () => ({ items: [listing({ network: 'eip155:8453', buyable: false })], next: undefined }),
  })
  const { stdout } = await cli(['agent', 'discover'], { dataDir: dataDir(), parts })
  expect(stdout).toMatch(/LIVE +Base, real money: this node pays on another network and cannot buy it/)
})

test('stoa earnings tells of each day what was sold and what was bought', async () => {
  const sum = { amount: '0', amount_atomic: '0', payments: 0 }
  const days = [
    { day: '2026-01-02', ...{ earned: '0.5', earned_atomic: '500000', paid: '0.02', paid_atomic: '20000' } },
  ].map((day) => ({ ...day, executions: 7, failed: 1, bought: 3 }))
  const money = { today: '0', today_atomic: '0', month: '0', month_atomic: '0', total: '0', total_atomic: '0' }
  const books = { earned: money, paid: money, owed: sum, lost: sum, refused: sum, held: sum, not_charged: sum }
  const { parts } = await runningNode(dataDir(), {
    stats: async () => ({ ...books, refunded: sum, days, hours: [], doors: [], agents: [] }),
  })
  const { stdout } = await cli(['earnings'], { dataDir: dataDir(), parts })
  expect(stdout).toMatch(/^USDC +EARNED +PAID$/m)
  expect(stdout).toMatch(/^DAY +EARNED +PAID +CALLS +FAILED +BOUGHT$/m)
  expect(stdout).toMatch(/^2026-01-02 +0\.5 +0\.02 +7 +1 +3$/m)
})

const sold = {
  ...{ payment_id: `0x${'a1'.repeat(32)}`, network: 'eip155:84532', asset: `0x${'1'.repeat(40)}`, amount: '0.0001' },
  ...{ amount_atomic: '100', payer: `0x${'2'.repeat(40)}`, pay_to: `0x${'3'.repeat(40)}`, tx_hash: '', book: 'earned' },
  ...{ units: { input_tokens: 100, output_tokens: 50 }, direction: 'in', agent_id: 'abc', agent_name: 'Writer' },
  ...{ peer_id: 'them', state: 'settled', challenge_nonce: null, max_timeout_seconds: 240 },
  ...{ created_at: '2026-01-02T00:00:00.000Z', updated_at: '2026-01-02T00:00:00.000Z' },
} as PaymentRecord

test('stoa payment show has the amount with its unit, and what a metered call has used', async () => {
  const { parts } = await runningNode(dataDir(), { payment: async () => sold })
  const { stdout } = await cli(['payment', 'show', sold.payment_id], { dataDir: dataDir(), parts })
  expect(stdout).toMatch(/^amount +0\.0001 USDC$/m)
  expect(stdout).toMatch(/^units +100 input tokens, 50 output tokens$/m)
  expect(stdout).not.toMatch(/object Object|null|undefined|atomic/)
})

test('stoa payment refund says what was paid back, to whom and where, and whether it was before', async () => {
  let refunds = 0
  const refund_tx_hash = `0x${'b2'.repeat(32)}` as const
  const refunded = { ...sold, book: 'refunded', refund_tx_hash } as PaymentRecord
  const { parts } = await runningNode(dataDir(), {
    payment: async () => (refunds === 0 ? sold : refunded),
    refundPayment: async () => {
      refunds++
      return refunded
    },
  })
  const refund = () => cli(['payment', 'refund', sold.payment_id, '--yes'], { dataDir: dataDir(), parts })
  expect((await refund()).stdout).toBe(`paid back 0.0001 USDC to ${sold.payer} (transaction ${refund_tx_hash})\n`)
  expect((await refund()).stdout).toBe(
    `0.0001 USDC were paid back to ${sold.payer} before (transaction ${refund_tx_hash})\n`,
  )
})
