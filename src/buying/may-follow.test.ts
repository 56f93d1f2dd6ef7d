import { expect, test } from 'vitest'
import { OPERATOR } from '../schema/caller.ts'
import { mayFollowOf } from './may-follow.ts'

/** Readers that know one record of ann's each, as those of the node do: what is not the caller's is unknown to it. */
const own = (id: string) => ({
  get(asked: string, { tokenId }: { tokenId: string | undefined }) {
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
  (scope) => {
    for (const [type, data] of anns) {
      expect([type, mayFollow({ scope, tokenId: 'ann' }, type, data)]).toEqual([type, true])
      expect([type, mayFollow({ scope, tokenId: 'bob' }, type, data)]).toEqual([type, false])
    }
  },
)

test('D48 the operator, admin and read follow all; listings, budget and status are everybody’s', () => {
  const bob = (scope: 'admin' | 'read') => ({ scope, tokenId: 'bob' })
  for (const caller of [OPERATOR, bob('admin'), bob('read')]) {
    for (const [type, data] of anns) expect(mayFollow(caller, type, data)).toBe(true)
  }
  for (const type of ['listing', 'budget', 'status'] as const) {
    expect(mayFollow({ scope: 'execute', tokenId: 'bob' }, type, {})).toBe(true)
  }
})
