import { expect, test } from 'vitest'
import { askTerms } from './transaction-terms.ts'

test('T13 gas is estimated without what waits: the one whose place a transaction takes has not happened', async () => {
  const answers: Record<string, unknown> = {
    eth_getBalance: '0xde0b6b3a7640000',
    eth_getBlockByNumber: { baseFeePerGas: '0x1' },
    eth_maxPriorityFeePerGas: '0x1',
    eth_gasPrice: '0x1',
  }
  // As anvil and others do: without a block they answer for the pending one.
  const request = async (method: string, [, block = 'pending']: readonly unknown[]) =>
    method === 'eth_estimateGas' ? (block === 'latest' ? '0x64' : '0x32') : answers[method]
  const call = { from: '0x1', to: '0x2', data: '0x', value: 0n } as const
  const tooPoor = () => {
    throw new Error('not too poor')
  }
  expect(await askTerms({ request }, { call, tooPoor }, AbortSignal.timeout(5_000))).toMatchObject({ gas: 125n })
})
