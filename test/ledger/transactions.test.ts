import { expect, test } from 'vitest'
import type { Hex } from '../../src/schema/primitives.ts'
import { createTransactions, type StoredTransaction, type Transactions } from '../../src/store/transactions.ts'
import { onBothEngines } from '../support/ledgers.ts'
import { payTo, randomHex, usdc } from '../support/payments.ts'

const network = usdc.network
function transaction(changes: Partial<StoredTransaction> = {}): StoredTransaction {
  const [to, account] = [payTo.toLowerCase() as Hex, payTo.toLowerCase() as Hex]
  const call = { to, data: '0x01', value: 10n ** 20n, raw: '0x02', key: undefined } as const
  return { purpose: 'a', network, account, accountNonce: 0, ...call, hash: randomHex(), ...changes }
}

onBothEngines((open, openTwo) => {
  test('of two that have looked at the account at the same time, one stores its transaction', async () => {
    const [one, other] = (await openTwo()).map(createTransactions) as [Transactions, Transactions]
    expect(await one.add(transaction(), 0, 1)).toBe(true)
    const last = await one.last()
    expect(await other.last()).toBe(last)
    const both = [transaction({ purpose: 'b' }), transaction({ purpose: 'c' })] as const
    const won = await Promise.all([one.add(both[0], last, 2), other.add(both[1], last, 2)])
    expect(won.filter(Boolean)).toHaveLength(1)
    expect((await one.open(network, payTo)).map(({ purpose }) => purpose)).toEqual(['a', won[0] ? 'b' : 'c'])
    expect(await other.add(transaction({ purpose: 'd' }), await other.last(), 3)).toBe(true)
  })

  test('a transaction is kept as it was signed, and is not stored twice', async () => {
    const transactions = createTransactions(await open())
    const stored = transaction({ key: 'key' })
    await transactions.add(stored, 0, 1)
    expect(await transactions.open(network, payTo)).toEqual([stored])
    expect(await transactions.withKey(network, payTo, 'key')).toEqual([{ ...stored, state: 'sent' }])
    expect(await transactions.add(stored, await transactions.last(), 2)).toBe(false)
  })

  test('what is mined ends the others with its account nonce, and is not called lost later', async () => {
    const transactions = createTransactions(await open())
    const [stuck, instead, later] = [transaction(), transaction(), transaction({ accountNonce: 1 })]
    for (const [no, one] of [stuck, instead, later].entries()) await transactions.add(one, no, 1)
    const token = { agentId: 'agent', network, tokenId: '7' }
    await Promise.all([transactions.end(instead, 'mined', 2, token), transactions.lose(instead.hash, 2)])
    expect(await transactions.ended(network, payTo, 'a')).toEqual([
      { hash: stuck.hash, state: 'lost' },
      { hash: instead.hash, state: 'mined' },
    ])
    expect(await transactions.minedInstead(stuck)).toEqual(instead)
    expect(await transactions.open(network, payTo)).toEqual([later])
    expect(await transactions.nextNonce(network, payTo)).toBe(1)
    expect(await transactions.endedFrom(network, payTo, 1)).toEqual([])
    expect(await transactions.endedFrom(network, payTo, 0)).toEqual([{ ...instead, state: 'mined' }])
    expect([await transactions.tokenOf('agent', network), await transactions.tokenOf('agent', 'eip155:1')]).toEqual([
      '7',
      undefined,
    ])
    // A reorganization takes it back: the chain may take either now.
    await transactions.reopen(stuck.hash, 3)
    expect(await transactions.open(network, payTo)).toEqual([later])
    await transactions.reopen(instead.hash, 3)
    expect(await transactions.open(network, payTo)).toEqual([stuck, instead, later])
    expect(await transactions.nextNonce(network, payTo)).toBe(0)
  })

  test('a replacement that the chain did not take waits again with the first one', async () => {
    const transactions = createTransactions(await open())
    const [first, instead] = [transaction(), transaction()]
    for (const [no, one] of [first, instead].entries()) await transactions.add(one, no, 1)
    await transactions.end(first, 'mined', 2)
    expect(await transactions.open(network, payTo)).toEqual([])
    await transactions.reopen(first.hash, 3)
    expect(await transactions.open(network, payTo)).toEqual([first, instead])
  })

  test('what was abandoned stays lost when a reorganization takes back what took its place', async () => {
    const transactions = createTransactions(await open())
    const [stuck, empty] = [transaction(), transaction({ purpose: 'abandon a' })]
    for (const [no, one] of [stuck, empty].entries()) await transactions.add(one, no, 1)
    await transactions.end(empty, 'mined', 2)
    await transactions.reopen(empty.hash, 3)
    expect(await transactions.open(network, payTo)).toEqual([empty])
  })

  test('one that failed is a rival of what takes its place after a reorganization, and is lost when that is mined', async () => {
    const transactions = createTransactions(await open())
    const [failed, instead] = [transaction(), transaction()]
    await transactions.add(failed, 0, 1)
    await transactions.end(failed, 'failed', 2)
    expect(await transactions.endedFrom(network, payTo, 0)).toEqual([{ ...failed, state: 'failed' }])
    await transactions.add(instead, await transactions.last(), 3)
    expect(await transactions.rivals(instead)).toEqual([failed])
    await transactions.end(instead, 'mined', 4)
    expect(await transactions.endedFrom(network, payTo, 0)).toEqual([{ ...instead, state: 'mined' }])
    expect(await transactions.rivals(instead)).toEqual([])
  })
})
