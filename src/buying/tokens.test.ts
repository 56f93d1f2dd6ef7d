import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { HandClock } from '../../test/support/hand-clock.ts'
import { openDatabase } from '../store/database.ts'
import { createTokenStore } from '../store/tokens.ts'
import { createTokens } from './tokens.ts'

function opened(path = ':memory:') {
  const clock = new HandClock()
  const database = openDatabase({ path })
  return {
    clock,
    database,
    tokens: createTokens({ clock, store: createTokenStore(database), random: randomBytes }),
  }
}
const wanted = { name: 'assistant', scope: 'spend', budget: 5_000_000n, per_day: undefined } as const

test('a token is known by its text until it is revoked', async () => {
  const { tokens } = opened()
  const { id, token } = await tokens.create(wanted)
  expect(await tokens.identify(token)).toEqual({ scope: 'spend', tokenId: id })
  expect(await tokens.list()).toMatchObject([{ id, budget: '5', budget_atomic: '5000000', per_day: null, spent: '0' }])
  await tokens.revoke(id)
  expect([await tokens.identify(token), await tokens.findValid(id)]).toEqual([undefined, undefined])
  expect(await tokens.list()).toMatchObject([{ id, revoked_at: expect.any(String) }])
  await expect(tokens.revoke('nobody')).rejects.toMatchObject({ code: 'UNKNOWN_TOKEN' })
})

test('a token ends with its time', async () => {
  const { tokens, clock } = opened()
  const { token } = await tokens.create({ ...wanted, expires_in_seconds: 60 })
  clock.advance(59_999)
  expect((await tokens.identify(token))?.scope).toBe('spend')
  clock.advance(1)
  expect(await tokens.identify(token)).toBeUndefined()
})

test('neither another secret nor another id makes a token', async () => {
  const { tokens } = opened()
  const [one, two] = [(await tokens.create(wanted)).token, (await tokens.create(wanted)).token]
  const crossed = `${one.split('.')[0]}.${two.split('.')[1]}`
  for (const text of [crossed, `${one}A`, one.slice(0, -1), '', 'stoa_.', `stoa_${'A'.repeat(12)}.${'A'.repeat(43)}`]) {
    expect(await tokens.identify(text)).toBeUndefined()
  }
})

test('T21 the disk holds no token, only what proves one', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'stoa-tokens-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const { tokens, database } = opened(join(dir, 'stoa.db'))
  const { token } = await tokens.create(wanted)
  const secret = token.split('.')[1]!
  for (const name of readdirSync(dir)) expect(readFileSync(join(dir, name)).includes(secret)).toBe(false)
  await database.close()
  const again = opened(join(dir, 'stoa.db'))
  expect((await again.tokens.identify(token))?.scope).toBe('spend')
  await again.database.close()
})

test('the token of a part of this node is stored once, and again only when its budget changes', async () => {
  const { database, clock } = opened()
  const store = createTokenStore(database)
  let kept = 0
  const keep: typeof store.keep = (token) => {
    kept++
    return store.keep(token)
  }
  const tokens = createTokens({ clock, store: { ...store, keep }, random: randomBytes })
  const part = { id: 'openai-door', name: 'OpenAI door', perDay: 1_000_000n }
  for (let call = 1; call <= 3; call++) {
    expect(await tokens.ofPart(part)).toEqual({ scope: 'spend', tokenId: part.id })
  }
  expect(kept).toBe(1)
  await tokens.ofPart({ ...part, perDay: 2_000_000n })
  expect(kept).toBe(2)
  expect(await tokens.record(part.id)).toMatchObject({ per_day: '2', budget: null })
})
