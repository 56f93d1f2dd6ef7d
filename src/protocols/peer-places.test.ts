import { expect, test } from 'vitest'
import { PeerPlaces } from './peer-places.ts'

const never = new AbortController().signal
const patient = { stalledMs: 60_000, waitMs: 60_000 }

test('more calls than a peer takes wait for those before them, in order', async () => {
  const places = new PeerPlaces({ callsMax: 2, waitingMax: 10, ...patient })
  const order: number[] = []
  const call = async (index: number) => {
    const leave = await places.take('seller', never)
    order.push(index)
    return leave
  }
  const [first, second, third, fourth] = [1, 2, 3, 4].map(call)
  const leaveFirst = await first!
  await second
  const other = await places.take('another seller', never)
  expect(order).toEqual([1, 2])
  leaveFirst()
  const leaveThird = await third!
  leaveThird()
  await fourth
  expect(order).toEqual([1, 2, 3, 4])
  other()
})

test('a call that is given up while it waits takes no place', async () => {
  const places = new PeerPlaces({ callsMax: 1, waitingMax: 10, ...patient })
  const leave = await places.take('seller', never)
  const caller = new AbortController()
  const waiting = places.take('seller', caller.signal)
  const next = places.take('seller', never)
  caller.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  leave()
  const leaveNext = await next
  leaveNext()
  expect(await places.take('seller', never)).toBeTypeOf('function')
})

test('where too many wait, one more is refused at once', async () => {
  const places = new PeerPlaces({ callsMax: 1, waitingMax: 1, ...patient })
  await places.take('seller', never)
  void places.take('seller', never)
  await expect(places.take('seller', never)).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
})

test('T15 a call waits a bounded time for those before it, and is told that it was not sent', async () => {
  const places = new PeerPlaces({ callsMax: 1, waitingMax: 2, stalledMs: 20, waitMs: 60_000 })
  const leave = await places.take('seller', never)
  const told = { code: 'OVERLOADED', retryable: true, message: expect.stringContaining('this call was not sent') }
  await expect(places.take('seller', never)).rejects.toMatchObject(told)
  leave()
  expect(await places.take('seller', never)).toBeTypeOf('function')
})

test('T15 a call waits no longer than a limit, although other calls end', async () => {
  const places = new PeerPlaces({ callsMax: 1, waitingMax: 2, stalledMs: 60_000, waitMs: 20 })
  await places.take('seller', never)
  await expect(places.take('seller', never)).rejects.toMatchObject({ code: 'OVERLOADED', retryable: true })
})
