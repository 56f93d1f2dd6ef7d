import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RunSlots, RunSlotsFull } from './run-slots.ts'

function gate() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { promise, open: resolve }
}
const turns = async () => {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
}

test('D36: so many run at once, the others wait their turn in order', async () => {
  const slots = new RunSlots({ concurrentMax: 2, waitingMax: 10 })
  const gates = Array.from({ length: 5 }, gate)
  const began: number[] = []
  const runs = gates.map(({ promise }, index) =>
    slots.run(undefined, 'agent', async () => {
      began.push(index)
      await promise
      return index
    }),
  )
  await turns()
  expect(began).toEqual([0, 1])
  gates[1]!.open()
  await turns()
  expect(began).toEqual([0, 1, 2])
  for (const { open } of gates) open()
  expect(await Promise.all(runs)).toEqual([0, 1, 2, 3, 4])
  expect(began).toEqual([0, 1, 2, 3, 4])
})

test('D36: one more than may wait is refused at once, and takes no place', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 1 })
  const { promise, open } = gate()
  const [first, second] = [
    slots.run(undefined, 'agent', () => promise),
    slots.run(undefined, 'agent', async () => 'second'),
  ]
  await expect(slots.run(undefined, 'agent', async () => 'third')).rejects.toThrow(RunSlotsFull)
  open()
  await first
  expect(await second).toBe('second')
  expect(await slots.run(undefined, 'agent', async () => 'fourth')).toBe('fourth')
})

test('D36: callers take turns, however many calls one of them has waiting', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 10 })
  const order: string[] = []
  const call = (name: string) =>
    slots.run(name[0], 'agent', async () => {
      order.push(name)
      await turns()
    })
  await Promise.all(['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2'].map(call))
  expect(order).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4'])
  await slots.idle()
})

test('T7: one caller takes half of the places at most, and gets them back', async () => {
  const slots = new RunSlots({ concurrentMax: 2, waitingMax: 4 })
  const { promise, open } = gate()
  const greedy = Array.from({ length: 6 }, () =>
    slots.run('greedy', 'agent', () => promise).catch((error: unknown) => error),
  )
  const other = slots.run('other', 'agent', async () => 'other')
  open()
  expect(await other).toBe('other')
  expect((await Promise.all(greedy)).filter((end) => end instanceof RunSlotsFull)).toHaveLength(3)
  expect(await slots.run('greedy', 'agent', async () => 'again')).toBe('again')
})

test('T7: free runs leave a quarter of the slots and of the places to runs that are paid, under whatever names they come', async () => {
  const slots = new RunSlots({ concurrentMax: 4, waitingMax: 4 })
  const { promise, open } = gate()
  const began: string[] = []
  const call = async (caller: string, isFree: boolean) => {
    using slot = slots.admit(caller, { isFree })
    await slot.turn('agent')
    began.push(caller)
    await promise
  }
  const free = Array.from({ length: 8 }, (_, at) => call(`stranger ${at}`, true).catch((error: unknown) => error))
  await turns()
  expect(began).toEqual(['stranger 0', 'stranger 1', 'stranger 2'])
  const paid = [call('payer', false), call('another', false)]
  await turns()
  expect(began.slice(3)).toEqual(['payer'])
  open()
  await Promise.all(paid)
  expect((await Promise.all(free)).filter((end) => end instanceof RunSlotsFull)).toHaveLength(2)
  expect(began).toHaveLength(8)
  await slots.idle()
})

test('a node with one slot uses it for free runs too', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 0 })
  using slot = slots.admit('stranger', { isFree: true })
  await slot.turn('agent')
  expect(slots.hasRoom('other')).toBe(false)
})

test('work that fails gives its place back', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 5 })
  const failing = slots.run(undefined, 'agent', () => Promise.reject(new Error('no')))
  const next = slots.run(undefined, 'agent', async () => 'next')
  await expect(failing).rejects.toThrow('no')
  expect(await next).toBe('next')
  const thrower = slots.run(undefined, 'agent', () => {
    throw new Error('at once')
  })
  await expect(thrower).rejects.toThrow('at once')
  await slots.idle()
})

test('idle waits until nothing runs and nothing waits', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 5 })
  await slots.idle()
  const gates = [gate(), gate()]
  const runs = gates.map(({ promise }) => slots.run(undefined, 'agent', () => promise))
  let isIdle = false
  const idle = slots.idle().then(() => {
    isIdle = true
  })
  gates[0]!.open()
  await runs[0]
  await turns()
  expect(isIdle).toBe(false)
  gates[1]!.open()
  await Promise.all([...runs, idle])
  expect(isIdle).toBe(true)
})

test('whatever comes and goes, never more run than may, and every run that is taken ends', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.nat(4),
      fc.array(fc.record({ turns: fc.nat(4), fails: fc.boolean() }), { maxLength: 30 }),
      async (concurrentMax, waitingMax, works) => {
        const slots = new RunSlots({ concurrentMax, waitingMax })
        let running = 0
        const runs = works.map(({ turns: count, fails }) =>
          slots.run(undefined, 'agent', async () => {
            expect(++running).toBeLessThanOrEqual(concurrentMax)
            for (let turn = 0; turn < count; turn++) await Promise.resolve()
            running--
            if (fails) throw new Error('failed')
          }),
        )
        const ends = await Promise.allSettled(runs)
        await slots.idle()
        const full = ends.filter((end) => end.status === 'rejected' && end.reason instanceof RunSlotsFull)
        expect(full.length).toBe(Math.max(0, works.length - concurrentMax - waitingMax))
      },
    ),
  )
})

test('a run that its agent has no room for takes no slot from other agents, and goes on when there is room', async () => {
  let room: number | undefined = 1
  const slots = new RunSlots({ concurrentMax: 2, waitingMax: 10, roomFor: (id) => (id === 'gpu' ? room : undefined) })
  const gates = new Map<string, ReturnType<typeof gate>>()
  const began: string[] = []
  const call = (caller: string, agentId: string, name: string) => {
    const { promise, open } = gate()
    gates.set(name, { promise, open })
    return slots.run(caller, agentId, async () => {
      began.push(name)
      await promise
    })
  }
  const runs = [call('a', 'gpu', 'a1'), call('a', 'gpu', 'a2'), call('b', 'gpu', 'b1'), call('b', 'cpu', 'b2')]
  await turns()
  expect(began).toEqual(['a1', 'b2'])
  gates.get('b2')!.open()
  await turns()
  expect(began).toEqual(['a1', 'b2'])
  gates.get('a1')!.open()
  await turns()
  expect(began).toEqual(['a1', 'b2', 'a2'])
  room = 2
  slots.wake()
  await turns()
  expect(began).toEqual(['a1', 'b2', 'a2', 'b1'])
  for (const { open } of gates.values()) open()
  await Promise.all(runs)
  await slots.idle()
})

test('without any room a run starts and fails by itself, so nobody waits for ever', async () => {
  let room: number | undefined = 1
  const slots = new RunSlots({ concurrentMax: 4, waitingMax: 10, roomFor: () => room })
  const { promise, open } = gate()
  const [first, second] = [slots.run('a', 'gpu', () => promise), slots.run('a', 'gpu', async () => 'second')]
  await turns()
  room = undefined
  slots.wake()
  expect(await second).toBe('second')
  open()
  await first
})
