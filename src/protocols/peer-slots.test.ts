import { expect, test } from 'vitest'
import { PeerSlots } from './peer-slots.ts'

const never = new AbortController().signal
const patient = { stalledMs: 60_000, waitMs: 60_000 }

test('more calls than a peer takes wait for those before them, in order', async () => {
  const slots = new PeerSlots({ callsMax: 2, waitingMax: 10, ...patient })
  const order: number[] = []
  const call = async (index: number) => {
    const leave = await slots.take('seller', never)
    order.push(index)
    return leave
  }
  const [first, second, third, fourth] = [1, 2, 3, 4].map(call)
  const leaveFirst = await first!
  await second
  const other = await slots.take('another seller', never)
  expect(order).toEqual([1, 2])
  leaveFirst()
  const leaveThird = await third!
  leaveThird()
  await fourth
  expect(order).toEqual([1, 2, 3, 4])
  other()
})

test('a call that is given up while it waits takes no slot', async () => {
  const slots = new PeerSlots({ callsMax: 1, waitingMax: 10, ...patient })
  const leave = await slots.take('seller', never)
  const caller = new AbortController()
  const waiting = slots.take('seller', caller.signal)
  const next = slots.take('seller', never)
  caller.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  leave()
  const leaveNext = await next
  leaveNext()
  expect(await slots.take('seller', never)).toBeTypeOf('function')
})

test('where too many wait, one more is refused at once', async () => {
  const slots = new PeerSlots({ callsMax: 1, waitingMax: 1, ...patient })
  await slots.take('seller', never)
  void slots.take('seller', never)
  await expect(slots.take('seller', never)).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
})

test('T15 a call waits a bounded time for those before it, and is told that it was not sent', async () => {
  const slots = new PeerSlots({ callsMax: 1, waitingMax: 2, stalledMs: 20, waitMs: 60_000 })
  const leave = await slots.take('seller', never)
  const told = { code: 'OVERLOADED', retryable: true, message: expect.stringContaining('this call was not sent') }
  await expect(slots.take('seller', never)).rejects.toMatchObject(told)
  leave()
  expect(await slots.take('seller', never)).toBeTypeOf('function')
})

test('T15 a call waits no longer than a limit, although other calls end', async () => {
  const slots = new PeerSlots({ callsMax: 1, waitingMax: 2, stalledMs: 60_000, waitMs: 20 })
  await slots.take('seller', never)
  await expect(slots.take('seller', never)).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
})
