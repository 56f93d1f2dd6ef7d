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
    slots.run(undefined, async () => {
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
  const [first, second] = [slots.run(undefined, () => promise), slots.run(undefined, async () => 'second')]
  await expect(slots.run(undefined, async () => 'third')).rejects.toThrow(RunSlotsFull)
  open()
  await first
  expect(await second).toBe('second')
  expect(await slots.run(undefined, async () => 'fourth')).toBe('fourth')
})

test('D36: callers take turns, however many calls one of them has waiting', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 10 })
  const order: string[] = []
  const call = (name: string) =>
    slots.run(name[0], async () => {
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
  const greedy = Array.from({ length: 6 }, () => slots.run('greedy', () => promise).catch((error: unknown) => error))
  const other = slots.run('other', async () => 'other')
  open()
  expect(await other).toBe('other')
  expect((await Promise.all(greedy)).filter((end) => end instanceof RunSlotsFull)).toHaveLength(3)
  expect(await slots.run('greedy', async () => 'again')).toBe('again')
})

test('work that fails gives its place back', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 5 })
  const failing = slots.run(undefined, () => Promise.reject(new Error('no')))
  const next = slots.run(undefined, async () => 'next')
  await expect(failing).rejects.toThrow('no')
  expect(await next).toBe('next')
  const thrower = slots.run(undefined, () => {
    throw new Error('at once')
  })
  await expect(thrower).rejects.toThrow('at once')
  await slots.idle()
})

test('idle waits until nothing runs and nothing waits', async () => {
  const slots = new RunSlots({ concurrentMax: 1, waitingMax: 5 })
  await slots.idle()
  const gates = [gate(), gate()]
  const runs = gates.map(({ promise }) => slots.run(undefined, () => promise))
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
          slots.run(undefined, async () => {
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
