import { expect, test } from 'vitest'
import { OPERATOR } from '../schema/caller.ts'
import { StoreError } from '../store/store-error.ts'
import { mayFollowOf } from './may-follow.ts'

/** Readers that know one record of ann's each, as those of the node do: what is not the caller's is unknown to it. */
const own = (id: string) => ({
  async get(asked: string, { tokenId }: { tokenId: string | undefined }) {
    if (asked !== id || tokenId !== 'ann') throw new Error(`no ${asked} is known here`)
  },
})
const mayFollow = mayFollowOf({
  orders: own('order'),
  workflows: own('workflow'),
  ledger: { payment: own('payment').get },
})
const anns = [
  ['order', { id: 'order' }],
  ['workflow', { id: 'workflow' }],
  ['approval', { id: 'approval', order_id: 'order' }],
  ['payment', { payment_id: 'payment', order_id: 'order' }],
] as const

test.each(['execute', 'spend'] as const)(
  'D48 a token of %s follows what is its own, and nothing of others',
  async (scope) => {
    for (const [type, data] of anns) {
      expect([type, await mayFollow({ scope, tokenId: 'ann' }, type, data)]).toEqual([type, true])
      expect([type, await mayFollow({ scope, tokenId: 'bob' }, type, data)]).toEqual([type, false])
    }
  },
)

test('D48 the operator, admin and read follow all; listings, budget and status are everybody’s', async () => {
  const bob = (scope: 'admin' | 'read') => ({ scope, tokenId: 'bob' })
  for (const caller of [OPERATOR, bob('admin'), bob('read')]) {
    for (const [type, data] of anns) expect(await mayFollow(caller, type, data)).toBe(true)
  }
  for (const type of ['listing', 'budget', 'status'] as const) {
    expect(await mayFollow({ scope: 'execute', tokenId: 'bob' }, type, {})).toBe(true)
  }
})

test('D48 what the ledger cannot say is not held back: the client asks again', async () => {
  const away = new StoreError('STORE_AWAY', 'the database cannot be reached')
  const gone = { get: () => Promise.reject(away) }
  const follows = mayFollowOf({ orders: gone, workflows: gone, ledger: { payment: gone.get } })
  await expect(follows({ scope: 'execute', tokenId: 'ann' }, 'order', { id: 'order' })).rejects.toBe(away)
})
