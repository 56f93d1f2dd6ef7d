import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createEventReader, type ServerEvent } from './event-stream.ts'

function read(parts: readonly string[]): ServerEvent[] {
  const events: ServerEvent[] = []
  const take = createEventReader((event) => events.push(event))
  for (const part of parts) take(part)
  return events
}

const text =
  'id: a-1\n\n: still here\n\nevent: order\r\ndata: {"id":\r\ndata: 1}\r\nid: a-2\r\n\r\nevent: reset\n\ndata:x\n\n'

test('events are read whole, wherever the stream is split', () => {
  const whole = [
    { event: 'order', data: '{"id":\n1}', id: 'a-2' },
    { event: 'reset', data: '', id: 'a-2' },
    { event: 'message', data: 'x', id: 'a-2' },
  ]
  expect(read([text])).toEqual(whole)
  fc.assert(
    fc.property(fc.array(fc.nat(text.length), { maxLength: 8 }), (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), text.length]
      expect(read(at.slice(1).map((end, index) => text.slice(at[index], end)))).toEqual(whole)
    }),
  )
})

test('an unfinished event is not delivered', () => {
  expect(read(['event: order\ndata: 1\n'])).toEqual([])
})
