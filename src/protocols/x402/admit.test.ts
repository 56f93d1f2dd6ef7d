import { expect, test } from 'vitest'
import { RunSlots } from '../../agents/run-slots.ts'
import { a2aCaller, STRANGER, strangerWith } from '../../schema/caller.ts'
import { doorCaller } from '../../schema/door.ts'
import { PeerError } from '../peer-error.ts'
import { admit, hasRoomFor } from './admit.ts'

test('T42 strangers of all doors of the public listener together take half of the places, whatever they call themselves', () => {
  const slots = new RunSlots({ concurrentMax: 4, waitingMax: 4 })
  const strangers = [
    doorCaller('http', '0x1'),
    doorCaller('mcp', '0x2'),
    a2aCaller(STRANGER.tokenId, 'context'),
    a2aCaller(strangerWith('ab'.repeat(16)).tokenId, 'other'),
  ]
  for (const stranger of strangers) admit(stranger, { slots })
  for (const stranger of [...strangers, a2aCaller(strangerWith('cd'.repeat(16)).tokenId, 'new')]) {
    expect(hasRoomFor(stranger, { slots })).toBe(false)
    expect(() => admit(stranger, { slots })).toThrow(PeerError)
  }
  for (const welcome of ['did:key:z1', 'did:key:z2', a2aCaller('token', 'c'), a2aCaller(undefined, 'c')]) {
    admit(welcome, { slots })
  }
})

test('T31 strangers who pay nothing leave half of the places of strangers to those who pay', () => {
  const slots = new RunSlots({ concurrentMax: 4, waitingMax: 4 })
  const isFree = true
  const strangers = [doorCaller('http', '1'), doorCaller('mcp', '2'), a2aCaller(STRANGER.tokenId, 'context')]
  const places = strangers.slice(0, 2).map((stranger) => admit(stranger, { slots }, { isFree }))
  for (const stranger of strangers) {
    expect(() => admit(stranger, { slots }, { isFree })).toThrow(PeerError)
    expect(hasRoomFor(stranger, { slots })).toBe(true)
  }
  for (const stranger of strangers.slice(0, 2)) admit(stranger, { slots })
  expect(hasRoomFor(strangers[2]!, { slots })).toBe(false)
  places[0]![Symbol.dispose]()
  expect(hasRoomFor(strangers[2]!, { slots })).toBe(true)
})
