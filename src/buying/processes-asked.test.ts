/** ADR-38: which process of a seller is asked for a call, and when a refusal is the last word. */
import { expect, test } from 'vitest'
import { PeerError } from '../protocols/peer-error.ts'
import { type Ask, FIRST_ASK, nextAsk } from './processes-asked.ts'

const busy = new PeerError('OVERLOADED', 'busy')
const unknown = new PeerError('UNKNOWN_RESOURCE', 'not sold here')
const wrong = new PeerError('PAYMENT_INVALID', 'no')

/** Whom a call asks whose processes answer like this, and what it ends with. */
function asked(...answers: Error[]): [asks: string[], end: unknown] {
  const asks: string[] = []
  let ask: Ask<string> = FIRST_ASK
  for (const [index, answer] of answers.entries()) {
    asks.push(`${ask.instead ?? 'any'}${ask.mayRefer ? ', may refer' : ''}`)
    try {
      ask = nextAsk(ask, answer, `not ${index + 1}`)
    } catch (error) {
      return [asks, error]
    }
  }
  return [asks, 'goes on']
}

test('only the first process may send a call on', () => {
  expect(asked(busy, busy)).toEqual([['any, may refer', 'not 1'], 'goes on'])
})

test('if both were busy, a third ask follows, and its answer stands', () => {
  expect(asked(busy, busy, busy)).toEqual([['any, may refer', 'not 1', 'not 2'], busy])
  expect(asked(busy, busy, wrong)).toEqual([['any, may refer', 'not 1', 'not 2'], wrong])
})

test('after another refusal than a full house, the second answer stands', () => {
  expect(asked(unknown, busy)).toEqual([['any, may refer', 'not 1'], busy])
  expect(asked(busy, unknown)).toEqual([['any, may refer', 'not 1'], unknown])
  expect(asked(wrong)).toEqual([['any, may refer'], wrong])
})
