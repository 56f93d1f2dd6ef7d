import fc from 'fast-check'
import { keccak256, recoverTransactionAddress } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { expect, test } from 'vitest'
import type { Hex } from '../schema/primitives.ts'
import { signTransaction } from './transaction.ts'

const hex = (minLength: number, maxLength: number) =>
  fc.uint8Array({ minLength, maxLength }).map((bytes) => `0x${Buffer.from(bytes).toString('hex')}` as Hex)

test('a transaction is encoded, signed and hashed as a library does', async () => {
  const wei = fc.bigInt({ min: 0n, max: 2n ** 80n })
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        nonce: fc.nat(1e6),
        tip: wei,
        over: wei,
        gas: wei,
        to: hex(20, 20),
        value: wei,
        data: hex(0, 400),
        key: hex(31, 31),
      }),
      async ({ nonce, tip, over, gas, to, value, data, key }) => {
        const privateKey = `${key}01` as Hex
        const account = privateKeyToAccount(privateKey)
        const fees = { maxPriorityFeePerGas: tip, maxFeePerGas: tip + over }
        const ours = signTransaction(
          { chainId: 84532, accountNonce: nonce, ...fees, gas, to, value, data },
          Buffer.from(privateKey.slice(2), 'hex'),
        )
        const theirs = await account.signTransaction({
          type: 'eip1559',
          chainId: 84532,
          nonce,
          ...fees,
          gas,
          to,
          value,
          data,
        })
        expect(ours).toEqual({ raw: theirs, hash: keccak256(theirs) })
        expect(await recoverTransactionAddress({ serializedTransaction: ours.raw as `0x02${string}` })).toBe(
          account.address,
        )
      },
    ),
    { numRuns: 60 },
  )
})
