import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { signTogether } from '../../src/payments/merkle-receipt.ts'
import { dataFile } from '../../src/store/data-dir.ts'
import { openDatabase } from '../../src/store/database.ts'
import { receiptFixture, x402ReceiptFixture } from '../support/fake-receipts.ts'
import { HandClock } from '../support/hand-clock.ts'
import { sellerWallet } from '../support/payments.ts'
import { TestBuyer } from '../support/test-buyer.ts'
import { createTestDatabase } from '../support/test-postgres.ts'
import { TestSeller } from '../support/x402-seller.ts'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const payerAddress = receiptFixture.payer

async function file(name: string, content: unknown): Promise<string> {
  const path = join(dataDir(), name)
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}
const verify = (...words: string[]) => cli(['receipts', 'verify', ...words], { dataDir: dataDir() })

test('receipts verify says what a file proves and what it does not prove, without a node', async () => {
  const path = await file('receipt.json', receiptFixture)
  const [task, result] = [await file('task', 'a task'), await file('result', 'a summary')]
  const run = await verify(path, '--task', task, '--result', result)
  expect(run.code).toBe(0)
  expect(run.stdout).toMatch(/^GOOD {2}payment 0x/)
  expect(run.stdout).toContain('proven        the signer is the account that this payment pays')
  expect(run.stdout).toContain('proven        the result is the one given, byte for byte')
  expect(run.stdout).toContain('not proven    that money moved')
})

test('receipts verify exits with 1 for a changed file or a different task', async () => {
  const { receipt } = receiptFixture
  const changed = { ...receiptFixture, receipt: { ...receipt, payload: { ...receipt!.payload, issuedAt: 1 } } }
  const run = await verify(await file('changed.json', changed))
  expect([run.code, run.stdout.slice(0, 3)]).toEqual([1, 'BAD'])
  const other = await verify(await file('good.json', receiptFixture), '--task', await file('task', 'another'))
  expect([other.code, other.stdout]).toEqual([1, expect.stringContaining('contradicted  the task given is another')])
})

test('receipts verify reads a bare receipt and whole exports, and skips purchases without a receipt', async () => {
  const bare = await verify(await file('bare.json', receiptFixture.receipt), '--json')
  expect(JSON.parse(bare.stdout)).toMatchObject({ ok: true, payment_id: receiptFixture.payment_id })
  const { receipt: _none, ...without } = receiptFixture
  const several = await verify(await file('all.json', [receiptFixture, without, receiptFixture]), '--json')
  expect(JSON.parse(several.stdout)).toHaveLength(2)
})

test('receipts verify judges a receipt that shares its signature, and one of x402, by the file alone', async () => {
  const { receipt } = receiptFixture
  const others = ['1', '2'].map((digit) => ({ ...receipt!.payload, paymentId: `0x${digit.repeat(64)}` }))
  const [shared] = signTogether([receipt!.payload, ...others], sellerWallet.signReceiptRoot)
  const signer = ['--signer', sellerWallet.address.toLowerCase()]
  const good = await verify(await file('shared.json', { ...receiptFixture, receipt: shared }), ...signer)
  expect([good.code, good.stdout]).toEqual([
    0,
    expect.stringContaining('as it stands here, with 2 others under one signature'),
  ])
  expect(good.stdout).toContain('that is the account that was expected')
  const x402 = await verify(await file('x402.json', x402ReceiptFixture), ...signer)
  expect([x402.code, x402.stdout]).toEqual([0, expect.stringMatching(/^GOOD {2}transaction 0x(9a){32}\n/)])
  expect(x402.stdout).toContain('not proven    that the transaction paid the signer')
  // The payment has an id by chance, which decides the place.
  const elsewhere = { ...shared, leafIndex: (shared!.leafIndex + 1) % shared!.treeSize }
  const moved = await verify(await file('moved.json', elsewhere), ...signer)
  expect([moved.code, moved.stdout.slice(0, 3)]).toEqual([1, 'BAD'])
  for (const one of [shared, x402ReceiptFixture]) {
    const other = await verify(await file('other.json', one), '--signer', payerAddress)
    expect([other.code, other.stdout]).toEqual([
      1,
      expect.stringContaining(`contradicted  the account that was expected is ${payerAddress}`),
    ])
  }
})

test('receipts x402 asks the running node', async () => {
  const asked: string[] = []
  const x402Receipt = async (id: string) => {
    asked.push(id)
    return x402ReceiptFixture
  }
  const receipts = async () => ({ items: [receiptFixture], next: undefined })
  const { parts } = await runningNode(dataDir(), { receipts, x402Receipt })
  const run = await cli(['receipts', 'x402', `${receiptFixture.payment_id.slice(0, 12)}…`], {
    dataDir: dataDir(),
    parts,
  })
  expect([run.code, JSON.parse(run.stdout)]).toEqual([0, x402ReceiptFixture])
  expect(asked).toEqual([receiptFixture.payment_id])
  const without = await cli(['receipts', 'x402'], { dataDir: dataDir(), parts })
  expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('the payment is missing')])
})

test.each([
  ['nothing', undefined, 'the receipt is missing'],
  ['text', 'no json', 'is not JSON'],
  ['another thing', { a: 1 }, 'is not a receipt'],
  ['an empty export', [], 'has no receipt'],
])('receipts verify of %s reports the problem', async (_about, content, reason) => {
  const run = await verify(...(content === undefined ? [] : [await file('x', content)]))
  expect([run.code, run.stderr]).toEqual([2, expect.stringContaining(reason)])
})

test('receipts verify of a payment id that is too short says how long it must be', async () => {
  const run = await verify('0xf8a1')
  expect([run.code, run.stderr]).toEqual([2, expect.stringContaining('the first six or more digits are enough')])
})

test('receipts verify accepts a payment id, and reads the database if no node runs', async () => {
  const database = openDatabase({ path: dataFile(dataDir(), 'database') })
  const clock = new HandClock()
  const seller = await new TestSeller({ clock }).start()
  const buyer = new TestBuyer({ clock, database, open: (_peer, protocol) => seller.open('buyer', protocol) })
  const { payment } = await buyer.execute()
  await seller.stop()
  await database.close()
  const run = await verify(payment!.payment_id, '--task', await file('task', 'task'))
  expect([run.code, run.stdout]).toEqual([0, expect.stringContaining('proven        the task is the one given')])
  const begun = await verify(`${payment!.payment_id.slice(0, 14)}…`)
  expect([begun.code, begun.stdout]).toEqual([0, expect.stringContaining(`GOOD  payment ${payment!.payment_id}`)])
  const unknown = await verify(`0x${'0'.repeat(64)}`)
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('has no receipt for this payment')])
})

test('receipts verify reads the PostgreSQL database of DATABASE_URL if no node runs', async () => {
  const server = await createTestDatabase({ isEmpty: true })
  onTestFinished(() => server.drop())
  const database = openDatabase({ path: dataFile(dataDir(), 'database') })
  const seller = await new TestSeller({ clock: new HandClock() }).start()
  const buyer = new TestBuyer({
    clock: seller.clock,
    database,
    open: (_peer, protocol) => seller.open('buyer', protocol),
  })
  const { payment } = await buyer.execute()
  await seller.stop()
  await database.close()
  const options = { dataDir: dataDir(), environment: { DATABASE_URL: server.address() } }
  await cli(['ledger', 'copy', '--from', dataDir(), '--to', 'env:DATABASE_URL'], options)
  await rm(dataFile(dataDir(), 'database'))
  const run = await cli(['receipts', 'verify', payment!.payment_id], options)
  expect([run.code, run.stdout]).toEqual([0, expect.stringContaining(`GOOD  payment ${payment!.payment_id}`)])
})

test('receipts list and export ask the running node', async () => {
  const receipts = async () => ({ items: [receiptFixture], next: undefined })
  const { parts } = await runningNode(dataDir(), { receipts })
  const options = { dataDir: dataDir(), parts }
  expect((await cli(['receipts', 'list'], options)).stdout).toMatch(
    /PAYMENT\nout {2}0.01 {2}valid .*Summary.* 0x\w{64}\n/,
  )
  expect((await cli(['receipts', 'export', '--csv'], options)).stdout.split('\r\n')).toHaveLength(3)
  expect(JSON.parse((await cli(['receipts', 'export', '--json'], options)).stdout)).toEqual([receiptFixture])
  const terminal = await cli(['receipts', 'list'], { ...options, tty: true, columns: 90 })
  expect(terminal.stdout).toMatch(/ 0x\w{6,}…\n$/)
  expect(Math.max(...terminal.stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(90)
  expect((await cli(['receipts', 'export'], options)).stderr).toContain(
    'the format is missing or given twice: choose --csv or --json',
  )
})

test('a text is compared with one receipt: of several, it would contradict all others', async () => {
  const several = await file('export.json', [receiptFixture, receiptFixture])
  expect(await verify(several, '--task', await file('task', 'a task'))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('has 2: give the payment id of the receipt'),
  })
})
