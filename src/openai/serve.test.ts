import { expect, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { listedAgent } from '../../test/support/listings.ts'
import { PeerError } from '../protocols/peer-error.ts'
import type { OrderRecord } from '../schema/order.ts'
import { KnownAgents } from './known-agents.ts'
import type { DoorRequest } from './request.ts'
import { answerTo, serve } from './serve.ts'

test('an agent that was free when the market was read, and costs now, is not followed by another one after the signature', async () => {
  const listings = [listedAgent('one', 0n), listedAgent('two', 0n)]
  const asked: string[] = []
  const known = new KnownAgents({
    search: { page: () => ({ items: listings, next: undefined }) },
    clock: new HandClock(),
  })
  const served = serve(
    {
      request: { models: ['tag:any'], maxPrice: undefined, task: 'x', stream: false } as unknown as DoorRequest,
      ...{ caller: { scope: 'spend', tokenId: 't' }, isOperator: false, autoMaxPrice: 10n, key: 'k', earlier: [] },
      following: { onAttempt() {}, onBound() {}, onOutput() {} },
      signal: new AbortController().signal,
    },
    {
      known,
      search: { find: () => undefined },
      perCall: () => 10n,
      async execute({ agentId, onSigning }) {
        asked.push(agentId)
        onSigning?.()
        throw new PeerError('OVERLOADED', 'no room')
      },
      again: async () => 'given up',
      orderOf: async () => ({ id: 'o', payment: {} }) as unknown as OrderRecord,
    },
  )
  const error = await served.catch((thrown: unknown) => thrown)
  expect(asked).toHaveLength(1)
  expect(answerTo(error)).toMatchObject({ body: { error: { code: 'paid_but_failed' } } })
})
