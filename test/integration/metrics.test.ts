/** What Prometheus reads of a node, and what the board and the alerts under deploy/ make of it. */
import { readFileSync } from 'node:fs'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { startTestNode, type TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let seller: TestNode
let buyer: TestNode

beforeAll(async () => {
  devnet = await startDevnet()
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  seller = await startTestNode({ devnet, walletKey: generatePrivateKey() })
  await seller.node.registerAgent({ name: 'echo', description: 'repeats', price: 10_000n, model: 'builtin/echo' })
  const bootstrap = [seller.node.addresses().find((address) => address.includes('/tcp/'))!]
  buyer = await startTestNode({ devnet, walletKey: key, bootstrap })
  await until(() => buyer.node.listings().length === 1)
})
afterAll(async () => {
  await buyer?.stop()
  await seller?.stop()
  await devnet?.stop()
})

const file = (path: string) => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8')
async function scrape(node: TestNode): Promise<string> {
  const response = await fetch(`${node.url}/metrics`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain/)
  return response.text()
}
/** The value of a sample, as its line names it. */
const sampleOf = (text: string, sample: string) =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${sample} `))
      ?.split(' ')[1] ?? Number.NaN,
  )

test('a paid call is seen on both sides: done, settled, timed, and gone from the budget', async () => {
  const before = await scrape(buyer)
  expect(sampleOf(before, 'stoa_executions_total{side="ordered",result="completed"}')).toBe(0)
  expect(sampleOf(before, 'stoa_budget_left_usdc{period="day"}')).toBe(5)
  const agentId = buyer.node.listings()[0]!.id
  await buyer.node.execute({ agentId, input: 'hello', signal: AbortSignal.timeout(20_000) })
  await until(async () => (await seller.node.status()).settlement.pending === 0)
  const [bought, sold] = [await scrape(buyer), await scrape(seller)]
  expect(sampleOf(bought, 'stoa_executions_total{side="ordered",result="completed"}')).toBe(1)
  expect(sampleOf(bought, 'stoa_payments_total{direction="out",state="reserved"}')).toBe(1)
  expect(sampleOf(bought, 'stoa_payments_total{direction="out",state="spent"}')).toBe(1)
  expect(sampleOf(bought, 'stoa_budget_left_usdc{period="day"}')).toBe(4.99)
  // Held until the chain shows it, and then paid: both count against the budget (D42).
  const month = (text: string, book: string) => sampleOf(text, `stoa_budget_usdc{period="month",book="${book}"}`)
  expect(month(bought, 'paid') + month(bought, 'held')).toBe(0.01)
  expect(sampleOf(sold, 'stoa_payments_usdc{book="earned"}')).toBe(0.01)
  for (const book of ['owed', 'lost', 'refused']) expect(sampleOf(sold, `stoa_payments_usdc{book="${book}"}`)).toBe(0)
  expect(sampleOf(sold, 'stoa_alarms')).toBe(0)
  await until(async () => sampleOf(await scrape(buyer), 'stoa_payments_usdc{book="paid"}') === 0.01, {
    timeoutMs: 60_000,
  })
  const shown = await scrape(buyer)
  expect([month(shown, 'paid'), month(shown, 'held')]).toEqual([0.01, 0])
  expect(sampleOf(shown, 'stoa_payments_usdc{book="held"}')).toBe(0)
  expect(sampleOf(bought, 'stoa_approvals_pending')).toBe(0)
  expect(sampleOf(sold, 'stoa_executions_total{side="sold",result="completed"}')).toBe(1)
  for (const state of ['authorized', 'owed', 'settled']) {
    expect(sampleOf(sold, `stoa_payments_total{direction="in",state="${state}"}`)).toBe(1)
  }
  expect(sampleOf(sold, 'stoa_payments_total{direction="in",state="voided"}')).toBe(0)
  expect(sampleOf(sold, 'stoa_settlement_seconds_count')).toBe(1)
  expect(sampleOf(sold, 'stoa_settlement_seconds_bucket{le="+Inf"}')).toBe(1)
  expect(sampleOf(sold, 'stoa_execution_seconds_count')).toBe(1)
  expect(sampleOf(sold, 'stoa_outbox_payments')).toBe(0)
  expect(sampleOf(sold, 'stoa_peers{direction="inbound"}')).toBe(1)
  expect(sampleOf(sold, 'stoa_listings{origin="local"}')).toBe(1)
})

test('every metric that the board and the alerts name is in a scrape, and every one of ours has a help', async () => {
  const text = await scrape(seller)
  // What only a ledger in PostgreSQL has is declared, without a sample.
  const declared = text.match(/(?<=^# TYPE )\w+/gm) ?? []
  const samples = new Set([
    ...text.split('\n').flatMap((line) => /^([a-z_0-9]+)[ {]/.exec(line)?.slice(1) ?? []),
    ...declared,
  ])
  const { groups } = parse(file('prometheus/alerts.yaml')) as { groups: { rules: { alert: string; expr: string }[] }[] }
  const rules = groups.flatMap((group) => group.rules)
  const { panels } = JSON.parse(file('grafana/stoa.json')) as { panels: { targets: { expr: string }[] }[] }
  const expressions = [
    ...rules.map(({ expr }) => expr),
    ...panels.flatMap((panel) => panel.targets.map(({ expr }) => expr)),
  ]
  const named = new Set(expressions.flatMap((expr) => expr.match(/\b(?:stoa|nodejs|process)_[a-z0-9_]+/g) ?? []))
  expect(named.size).toBeGreaterThan(15)
  expect([...named].filter((name) => !samples.has(name))).toEqual([])
  expect(rules.map(({ alert }) => alert)).toEqual(
    expect.arrayContaining(['StoaOutboxStuck', 'StoaWorkLost', 'StoaUnreachable', 'StoaBudgetExhausted']),
  )
  for (const name of text.match(/(?<=^# TYPE )stoa_\w+/gm) ?? [])
    expect(text).toMatch(new RegExp(`^# HELP ${name} .+`, 'm'))
})

test('a node alone is a fleet of one, and fires no alert of fleets', async () => {
  const text = await scrape(seller)
  expect(sampleOf(text, 'stoa_processes{state="selling"}')).toBe(1)
  for (const state of ['starting', 'ready', 'draining', 'silent'])
    expect(sampleOf(text, `stoa_processes{state="${state}"}`)).toBe(0)
  expect(sampleOf(text, 'stoa_processes_missing')).toBe(0)
  expect(sampleOf(text, 'stoa_process_versions')).toBe(1)
  expect(sampleOf(text, 'stoa_workers{state="away"}')).toBe(0)
  expect(sampleOf(text, 'stoa_agents_unable')).toBe(0)
})

test('D16 pages of foreign origins may not read them', async () => {
  const response = await fetch(`${seller.url}/metrics`, { headers: { origin: 'https://evil.example' } })
  expect(response.status).toBe(403)
})
