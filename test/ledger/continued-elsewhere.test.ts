/** D19 D33: what a caller began at one process of a node, it goes on with at another one. */
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createTokens } from '../../src/buying/tokens.ts'
import { createExchanges } from '../../src/store/exchanges.ts'
import { createSessionStore } from '../../src/store/sessions.ts'
import { createTokenStore } from '../../src/store/tokens.ts'
import { HandClock } from '../support/hand-clock.ts'
import { openShared } from '../support/ledgers.ts'
import { agentId } from '../support/payments.ts'

const callerId = 'did:buyer'

test('D19 the next run of a session has its history, whichever process ran it before', async () => {
  const ledgers = await openShared(2)
  const [a, b] = ledgers.map((ledger) => createExchanges(ledger))
  const said = (input: string) => ({
    ...{ agentId, callerId, correlationId: 'c', input, output: `re: ${input}`, createdAt: 1, durationMs: 1 },
  })
  await a!.record(said('one'))
  expect(await b!.history(agentId, callerId, 9)).toEqual([{ input: 'one', output: 're: one' }])
  await b!.record(said('two'))
  for (const exchanges of [a!, b!]) {
    const inputs = (await exchanges.history(agentId, callerId, 9)).map(({ input }) => input)
    expect(inputs).toEqual(['one', 'two'])
  }
  const { items } = await createSessionStore(ledgers[0]!).exchanges(agentId, callerId, { limit: 9 })
  expect(items.map(({ input }) => input)).toEqual(['one', 'two'])
})

test('D33 a token made at one process is known at the other at once, and so is that it was revoked', async () => {
  const clock = new HandClock()
  const random = (length: number) => randomBytes(length)
  const [a, b] = (await openShared(2)).map((ledger) => createTokens({ clock, random, store: createTokenStore(ledger) }))
  const { id, token } = await a!.create({ name: 'assistant', scope: 'spend', budget: 5_000_000n })
  expect(await b!.identify(token)).toEqual({ scope: 'spend', tokenId: id })
  expect(await b!.record(id)).toMatchObject({ id, budget_atomic: '5000000', spent_atomic: '0' })
  await b!.revoke(id)
  expect([await a!.identify(token), await a!.findValid(id)]).toEqual([undefined, undefined])
})
