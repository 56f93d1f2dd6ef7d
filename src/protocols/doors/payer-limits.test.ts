import { expect, test } from 'vitest'
import { HandClock } from '../../../test/support/hand-clock.ts'
import { Hold } from '../../lib/hold.ts'
import type { Hex } from '../../schema/primitives.ts'
import { PayerLimits } from './payer-limits.ts'

const payer: Hex = '0xAbCdef0000000000000000000000000000000001'
const other: Hex = '0xAbCdef0000000000000000000000000000000002'

test('T42 an account has 32 requests at once, however it is written, and one that ends makes room', () => {
  const payers = new PayerLimits({ clock: new HandClock() })
  const places = Array.from({ length: 32 }, () => payers.enter(payer) as Hold)
  const lower = payer.toLowerCase() as Hex
  expect(payers.enter(lower)).toMatch(/^at most 32 requests/)
  expect(payers.enter(other)).toBeInstanceOf(Hold)
  places[0]![Symbol.dispose]()
  places[0]![Symbol.dispose]()
  expect(payers.enter(lower)).toBeInstanceOf(Hold)
  expect(payers.enter(payer)).toMatch(/^at most 32 requests/)
})

test('T42 an account has a rate, and a request beyond it takes no place', () => {
  const clock = new HandClock()
  const payers = new PayerLimits({ clock })
  for (let request = 0; request < 200; request++) (payers.enter(payer) as Hold)[Symbol.dispose]()
  for (let request = 0; request < 40; request++) expect(payers.enter(payer)).toMatch(/^too many paid requests/)
  clock.advance(1_000)
  for (let request = 0; request < 32; request++) expect(payers.enter(payer)).toBeInstanceOf(Hold)
})
