import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { randomHex } from '../../test/support/payments.ts'
import type { Hex } from '../schema/primitives.ts'
import { type ChallengeSeal, createChallengeSeal } from './challenge-seal.ts'
import { CHALLENGE_TTL_MS, Challenges } from './challenges.ts'

const asked = (peerId = 'alice') => ({ correlationId: 'one', resource: 'agent', peerId })
const sealOf = (secret = 'one seller') => createChallengeSeal(Buffer.from(secret), randomBytes)
const AGENTS = ['another', 'agent']
const shelf = (limits: { countMax?: number; perPeerMax?: number } = {}, seal = sealOf(), agents = AGENTS) =>
  new Challenges({ seal, offered: () => agents }, limits)

test('D26: a challenge is found by its nonce, correlation id and peer, for 300 s', () => {
  const challenges = shelf()
  const challenge = challenges.issue(asked(), 1000)
  expect(challenge.expiresAt).toBe(1000 + 300_000)
  expect(challenges.find(challenge, 1000)).toEqual({ challenge })
  expect(
    challenges.find({ ...challenge, nonce: challenge.nonce.toUpperCase().replace('0X', '0x') as Hex }, 1000),
  ).toEqual({
    challenge,
  })
  expect(challenges.find(challenge, 1000 + 299_999)).toEqual({ challenge })
  expect(challenges.find(challenge, 1000 + 300_000)).toEqual({ error: 'PAYMENT_NONCE_EXPIRED' })
})

test.each([
  ['another nonce', { nonce: randomHex() }],
  ['another correlation id', { correlationId: 'two' }],
  ['another peer (T4)', { peerId: 'mallory' }],
])('T4: %s is a mismatch, and the challenge stays', (_what, change) => {
  const challenges = shelf()
  const challenge = challenges.issue(asked(), 0)
  expect(challenges.find({ ...challenge, ...change }, 0)).toEqual({ error: 'PAYMENT_NONCE_MISMATCH' })
  expect(challenges.find(challenge, 0)).toEqual({ challenge })
})

test('a consumed challenge is told as used, also before its payment is on disk', () => {
  const challenges = shelf()
  const challenge = challenges.issue(asked(), 0)
  challenges.consume(challenge)
  expect(challenges.find(challenge, 0)).toEqual({ error: 'PAYMENT_NONCE_USED' })
  expect(challenges.size).toBe(0)
})

test('a challenge whose payment was refused after all can be used again, for the rest of its time', () => {
  const challenges = shelf()
  const challenge = challenges.issue(asked(), 0)
  const held = challenges.consume(challenge)
  held[Symbol.dispose]()
  expect(challenges.find(challenge, CHALLENGE_TTL_MS - 1)).toEqual({ challenge })
  expect(challenges.find(challenge, CHALLENGE_TTL_MS)).toEqual({ error: 'PAYMENT_NONCE_EXPIRED' })
})

test('D26: a peer holds 64, its oldest give way, and others’ stay', () => {
  const challenges = shelf()
  const bob = challenges.issue(asked('bob'), 0)
  const own = Array.from({ length: 70 }, () => challenges.issue(asked('alice'), 0))
  expect(challenges.size).toBe(65)
  expect(own.map((one) => 'challenge' in challenges.find(one, 0))).toEqual([
    ...Array(6).fill(false),
    ...Array(64).fill(true),
  ])
  expect(challenges.find(bob, 0)).toEqual({ challenge: bob })
})

test('D26: the payer of a challenge that gave way hears that it has expired, and nobody else does', () => {
  const challenges = shelf()
  const own = Array.from({ length: 112 }, () => challenges.issue(asked('alice'), 0))
  const answers = own.map((one) => challenges.find(one, 0))
  expect(answers.filter((answer) => 'error' in answer)).toEqual(Array(48).fill({ error: 'PAYMENT_NONCE_EXPIRED' }))
  expect(challenges.find({ ...own[0]!, peerId: 'mallory' }, 0)).toEqual({ error: 'PAYMENT_NONCE_MISMATCH' })
  expect(challenges.find({ ...own[0]!, correlationId: 'two' }, 0)).toEqual({ error: 'PAYMENT_NONCE_MISMATCH' })
})

test('T19: nothing is kept of challenges that gave way, and all their payers hear that they have expired', () => {
  const challenges = shelf({ perPeerMax: 2 })
  const own = Array.from({ length: 2 + 256 + 10 }, () => challenges.issue(asked('alice'), 0))
  const answers = own.map((one) => challenges.find(one, 0))
  const count = (error: string) => answers.filter((answer) => 'error' in answer && answer.error === error).length
  expect([count('PAYMENT_NONCE_EXPIRED'), count('PAYMENT_NONCE_MISMATCH'), challenges.size]).toEqual([266, 0, 2])
})

test('D26: all peers together hold 10,000', () => {
  const challenges = shelf()
  const first = challenges.issue(asked('first'), 0)
  for (let peer = 0; peer < 10_000; peer++) challenges.issue(asked(`peer ${peer}`), 0)
  expect(challenges.size).toBe(10_000)
  expect(challenges.find(first, 0)).toEqual({ error: 'PAYMENT_NONCE_EXPIRED' })
})

test('T19: what has expired long ago is forgotten when the next is issued', () => {
  const challenges = shelf()
  for (let index = 0; index < 50; index++) challenges.issue(asked(`peer ${index}`), index)
  challenges.issue(asked('late'), 2 * CHALLENGE_TTL_MS + 49)
  expect(challenges.size).toBe(1)
})

test('whatever is issued, consumed and restored, the limits hold and no challenge is another peer’s', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('issue' as const), peer: fc.nat(3) }),
    fc.record({ do: fc.constantFrom('consume' as const, 'restore' as const), index: fc.nat(40) }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.nat(2 * CHALLENGE_TTL_MS) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const challenges = shelf({ countMax: 8, perPeerMax: 3 })
      const issued: ReturnType<Challenges['issue']>[] = []
      const consumed = new Map<Hex, Disposable>()
      let now = 0
      for (const one of steps) {
        if (one.do === 'wait') now += one.ms
        else if (one.do === 'issue') issued.push(challenges.issue(asked(`peer ${one.peer}`), now))
        else {
          const challenge = issued[one.index % Math.max(1, issued.length)]
          if (challenge === undefined) continue
          const isFound = 'challenge' in challenges.find(challenge, now)
          if (one.do === 'consume' && isFound) {
            consumed.set(challenge.nonce, challenges.consume(challenge))
          }
          if (one.do === 'restore') {
            consumed.get(challenge.nonce)?.[Symbol.dispose]()
            consumed.delete(challenge.nonce)
          }
        }
        expect(challenges.size).toBeLessThanOrEqual(8)
        for (const challenge of issued) {
          const found = challenges.find(challenge, now)
          if ('challenge' in found) {
            expect(consumed.has(challenge.nonce)).toBe(false)
            expect(found.challenge.expiresAt).toBeGreaterThan(now)
          }
          expect(challenges.find({ ...challenge, peerId: 'mallory' }, now)).not.toHaveProperty('challenge')
        }
      }
    }),
  )
})

describe('ADR-31: a challenge of another process of this seller', () => {
  const issued = (terms = asked()) => shelf().issue(terms, 1000)
  const mismatch = { error: 'PAYMENT_NONCE_MISMATCH' }

  test('is known until it expires, and consumes as one of this process does', () => {
    const challenge = issued()
    const here = shelf()
    expect(here.find(challenge, 1000)).toEqual({ challenge, isFromElsewhere: true })
    expect(here.find(challenge, challenge.expiresAt - 1)).toHaveProperty('challenge')
    expect(here.find(challenge, challenge.expiresAt)).toEqual({ error: 'PAYMENT_NONCE_EXPIRED' })
    const held = here.consume(challenge)
    expect(here.find(challenge, 1000)).toEqual({ error: 'PAYMENT_NONCE_USED' })
    held[Symbol.dispose]()
    expect(here.find(challenge, 1000)).toHaveProperty('challenge')
  })

  test.each([
    ['another peer (T4)', { peerId: 'mallory' }],
    ['another correlation id', { correlationId: 'two' }],
    ['a nonce from nowhere', { nonce: randomHex() }],
    ['no nonce at all', { nonce: 'preemptive' as Hex }],
    ['a nonce that is too long', { nonce: `0x${'00'.repeat(33)}` as Hex }],
  ])('is of no use to %s', (_what, change) => {
    expect(shelf().find({ ...issued(), ...change }, 1000)).toEqual(mismatch)
  })

  test('is for its agent alone, and for no agent that is not sold here', () => {
    const challenge = issued({ ...asked(), resource: 'another' })
    expect(shelf().find(challenge, 1000)).toMatchObject({ challenge: { resource: 'another' } })
    expect(shelf({}, sealOf(), ['agent']).find(challenge, 1000)).toEqual(mismatch)
  })

  test('is of no use at another seller', () => {
    expect(shelf({}, sealOf('another seller')).find(issued(), 1000)).toEqual(mismatch)
  })

  test('is refused whichever of its bits is changed, also those of its time', () => {
    const challenge = issued()
    const bytes = Buffer.from(challenge.nonce.slice(2), 'hex')
    for (let bit = 0; bit < 256; bit++) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(shelf().find({ ...challenge, nonce: `0x${changed.toString('hex')}` }, 1000)).toEqual(mismatch)
    }
  })

  test('no two have one nonce', () => {
    const seal: ChallengeSeal = sealOf()
    const nonces = Array.from({ length: 10_000 }, () => seal.seal(asked(), 1000))
    expect(new Set(nonces).size).toBe(nonces.length)
  })
})
