import { expect, test } from 'vitest'
import type { Options } from '../../src/http/client/requests.ts'
import type { WalletBalance } from '../../src/schema/api.ts'
import type { SendTransfer, Transfer } from '../../src/schema/transfer.ts'
import { address, cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const to = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const held: WalletBalance = {
  ...{ address, network: 'eip155:84532', network_kind: 'test', asset: address, symbol: 'USDC', decimals: 6 },
  ...{ balance: '12.5', balance_atomic: '12500000', eth: '0.01' },
}

/** A running node that notes what it is asked to send. */
async function node() {
  const asked: [SendTransfer, Options | undefined][] = []
  const sendFromWallet = async (transfer: SendTransfer, options?: Options): Promise<Transfer> => {
    asked.push([transfer, options])
    const { amount, asset = 'USDC' } = transfer
    return {
      tx_hash: '0x12',
      network: held.network,
      network_kind: held.network_kind,
      asset,
      amount,
      amount_atomic: '1',
      from: address,
      to,
    }
  }
  const { parts } = await runningNode(dataDir(), { sendFromWallet, balance: async () => held })
  const run = (words: string[], options: { stdin?: string; tty?: boolean } = {}) =>
    cli(['wallet', 'send', ...words], { dataDir: dataDir(), parts, ...options })
  return { run, asked }
}

test('wallet send shows amount, accounts and kind of money, and sends after a yes', async () => {
  const { run, asked } = await node()
  const sent = await run(['--to', to, '--amount', '1.5'], { tty: true, stdin: 'yes\n' })
  expect(sent.code).toBe(0)
  expect(sent.stderr).toMatch(/TEST.*Base Sepolia, test money/)
  expect(sent.stderr).toContain('send  1.5 USDC')
  expect(sent.stderr).toContain(`from  ${address}, which holds 12.5 USDC`)
  expect(sent.stderr).toContain(`to    ${to}`)
  expect(sent.stdout).toBe(`sent 1.5 USDC to ${to} (transaction 0x12)\n`)
  expect(asked[0]![0]).toEqual({ to, amount: '1.5', asset: 'USDC', network: 'eip155:84532' })
  expect(asked[0]![1]?.idempotencyKey).toMatch(/^[0-9a-f-]{36}$/)
})

test.each(['no\n', '\n', 'yess\n', ''])('after %j nothing is sent', async (stdin) => {
  const { run, asked } = await node()
  const left = await run(['--to', to, '--amount', '1'], { tty: true, stdin })
  expect([left.code, asked]).toEqual([130, []])
  expect(left.stderr).toContain('nothing was sent')
})

test('without a terminal wallet send requires --yes', async () => {
  const { run, asked } = await node()
  expect(await run(['--to', to, '--amount', '1'])).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
  expect(asked).toEqual([])
  const words = ['--to', to, '--amount', '0.01', '--asset', 'eth', '--yes', '--idempotency-key', 'k1', '--json']
  const sent = await run(words)
  expect(JSON.parse(sent.stdout)).toMatchObject({ asset: 'ETH', tx_hash: '0x12' })
  expect(asked[0]![1]).toMatchObject({ idempotencyKey: 'k1' })
})

test.each([
  [['--amount', '1', '--yes'], '--to is missing'],
  [['--to', to, '--yes'], '--amount is missing'],
  [['--to', '0x12', '--amount', '1', '--yes'], '--to'],
  [['--to', to, '--amount', '-1', '--yes'], '--amount'],
  [['--to', to, '--amount', '1', '--asset', 'btc', '--yes'], 'usdc or eth'],
])('%j is refused before the node is asked', async (words, said) => {
  const { run, asked } = await node()
  const refused = await run(words)
  expect([refused.code, asked]).toEqual([2, []])
  expect(refused.stderr).toContain(said)
})
