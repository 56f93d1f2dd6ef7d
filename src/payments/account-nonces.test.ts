import { expect, test } from 'vitest'
import { randomHex, testWallet, usdc } from '../../test/support/payments.ts'
import { systemClock } from '../lib/clock.ts'
import { openDatabase } from '../store/database.ts'
import { createTransactions } from '../store/transactions.ts'
import { nextNonce, WAITING_MAX } from './account-nonces.ts'

const wallet = testWallet()
const signal = AbortSignal.timeout(10_000)

/** An account whose books have so many mined transactions, and an RPC that knows of none. */
async function account(mined: number) {
  const transactions = createTransactions(openDatabase({ path: ':memory:' }))
  const { network } = usdc
  for (let accountNonce = 0; accountNonce < mined; accountNonce++) {
    const call = { purpose: 'test', to: wallet.address, data: '0x', value: 0n, key: undefined } as const
    const signed = { network, account: wallet.address, accountNonce, raw: randomHex(), hash: randomHex() }
    await transactions.add({ ...call, ...signed }, accountNonce, 1)
    await transactions.end({ ...call, ...signed }, 'mined', 1)
  }
  const request = async (method: string) => (method === 'eth_getTransactionCount' ? '0x0' : null)
  return { transactions, deps: { chain: { network, request }, wallet, transactions, clock: systemClock } }
}

test('a few transactions that the chain does not know any more wait again', async () => {
  const { transactions, deps } = await account(WAITING_MAX)
  expect(await nextNonce(deps, signal)).toBeUndefined()
  expect(await transactions.open(usdc.network, wallet.address)).toHaveLength(WAITING_MAX)
})

test('an RPC that knows of none of many is wrong, and changes nothing', async () => {
  const { transactions, deps } = await account(WAITING_MAX + 1)
  await expect(nextNonce(deps, signal)).rejects.toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
  expect(await transactions.open(usdc.network, wallet.address)).toEqual([])
})
