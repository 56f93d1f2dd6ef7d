import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DevChain, NETWORK, startChain } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import { createWalletChecks } from '../../src/buying/wallet-checks.ts'
import { createChain } from '../../src/chain/chain.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import { HandClock } from '../support/hand-clock.ts'
import { randomHex, usdc } from '../support/payments.ts'

/* D50: a buyer with code (EIP-7702) is told before it signs. The chain is real. */

/** Answers EIP-1271's `isValidSignature` with yes, whatever was signed. */
const AGREES = '0x631626ba7e60e01b60005260206000f3'
const signal = AbortSignal.timeout(60_000)
let devChain: DevChain
beforeAll(async () => {
  devChain = await startChain()
})
afterAll(() => devChain.stop())

function setup(rpcUrl = devChain.rpcUrl) {
  const wallet = createWallet(randomHex(), usdc)
  const options = { network: NETWORK, asset: addresses.usdc, rpcUrl, timeoutMs: 30_000 }
  const chain = createChain(options, { logger: silentLogger })
  const checked: bigint[] = []
  const funds = { check: async (amount: bigint) => void checked.push(amount) }
  const clock = new HandClock()
  return { wallet, clock, checked, code: createWalletChecks({ clock, logger: silentLogger, wallet, chain }, funds) }
}

test('a wallet without code goes on to the check of its balance', async () => {
  const { code, checked } = setup()
  await code.check(7n, signal)
  expect(checked).toEqual([7n])
})

test('a wallet whose code refuses its key is told WALLET_HAS_CODE, until the code is gone', async () => {
  const { code, checked, wallet } = setup()
  await devChain.deploySmartWallet(createWallet(randomHex(), usdc).address, wallet.address)
  for (let turn = 0; turn < 2; turn++) {
    await expect(code.check(7n, signal)).rejects.toMatchObject({
      code: 'WALLET_HAS_CODE',
      message: expect.stringMatching(/EIP-7702.*nothing was signed/),
    })
  }
  expect(checked).toEqual([])
  await devChain.client.setCode({ address: wallet.address, bytecode: '0x' })
  await code.check(7n, signal)
  expect(checked).toEqual([7n])
})

test('a wallet whose code takes its key may pay', async () => {
  const { code, checked, wallet } = setup()
  await devChain.client.setCode({ address: wallet.address, bytecode: AGREES })
  await code.check(7n, signal)
  expect(checked).toEqual([7n])
})

test('T15 an RPC that does not answer stops nothing', async () => {
  const { code, checked } = setup('http://127.0.0.1:1')
  await code.check(7n, signal)
  expect(checked).toEqual([7n])
})
