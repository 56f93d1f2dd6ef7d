import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { boundAt, compareKeys, type ElementKey, END, elementKey, KEY_BYTES, START } from './element-key.ts'
import { addElements, emptySum } from './element-sum.ts'
import { RangeIndex, type RangeView } from './range-index.ts'
import { type TreeNode, treeOf, withKey, withoutKey } from './range-tree.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const hashOf = (name: unknown) => createHash('sha256').update(String(name)).digest('hex')
/** Few times, so that many elements share one. */
const keyOf = (name: number, times = 20) => elementKey(name % times, hashOf(name))

/** Checks a view against the sorted list of what it must hold. */
function expectToHold(view: RangeView, expected: readonly ElementKey[], bounds: readonly Uint8Array[]): void {
  const sorted = expected.toSorted(compareKeys)
  expect(view.size).toBe(sorted.length)
  expect(hex(view.keys(0, view.size))).toBe(hex(Buffer.concat(sorted)))
  for (const bound of bounds) {
    const rank = sorted.filter((key) => compareKeys(key, bound) < 0).length
    expect(view.rankOf(bound)).toBe(rank)
    if (rank < sorted.length) expect(hex(view.keyAt(rank))).toBe(hex(sorted[rank]!))
    expect(hex(view.keys(rank, view.size))).toBe(hex(Buffer.concat(sorted.slice(rank))))
    for (const [from, to] of [
      [0, rank],
      [rank >> 1, rank],
      [rank, sorted.length],
    ] as const) {
      const sum = emptySum()
      addElements(sum, Buffer.concat(sorted), from, to)
      expect(view.sum(from, to)).toEqual(sum)
    }
  }
}

const changes = fc.array(fc.record({ name: fc.nat(300), remove: fc.boolean() }), { maxLength: 600, size: 'max' })

test('an index holds what was added and not deleted, in order, with the sums of its ranges (property)', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(300), { maxLength: 300, size: 'max' }), changes, (start, list) => {
      const index = new RangeIndex(start.map((name) => keyOf(name)))
      const held = new Set(start)
      for (const { name, remove } of list) {
        const key = keyOf(name)
        expect(index.has(key)).toBe(held.has(name))
        if (remove) expect(index.delete(key)).toBe(held.delete(name))
        else {
          expect(index.add(key)).toBe(!held.has(name))
          held.add(name)
        }
      }
      const keys = [...held].map((name) => keyOf(name))
      expectToHold(index.snapshot(), keys, [START, END, boundAt(7), ...keys.slice(0, 8)])
    }),
    { numRuns: 60 },
  )
})

test('what is given twice is held once', () => {
  const index = new RangeIndex([keyOf(1), keyOf(2), keyOf(1)])
  expectToHold(index.snapshot(), [keyOf(1), keyOf(2)], [])
})

test('a snapshot stays as it was, whatever becomes of the index', () => {
  const names = Array.from({ length: 500 }, (_, name) => name)
  const index = new RangeIndex(names.map((name) => keyOf(name)))
  const before = index.snapshot()
  for (const name of names) {
    index.add(keyOf(name + 1000))
    index.delete(keyOf(name))
  }
  expectToHold(
    before,
    names.map((name) => keyOf(name)),
    [boundAt(3)],
  )
  expectToHold(
    index.snapshot(),
    names.map((name) => keyOf(name + 1000)),
    [boundAt(3)],
  )
})

function shapeOf(node: TreeNode): { leaves: number; depth: number } {
  if (node.children === undefined) return { leaves: 1, depth: 1 }
  const shapes = node.children.map(shapeOf)
  return {
    leaves: shapes.reduce((sum, { leaves }) => sum + leaves, 0),
    depth: 1 + Math.max(...shapes.map(({ depth }) => depth)),
  }
}

const orders: Record<string, (name: number) => ElementKey> = {
  'in the order of time': (name) => elementKey(name, hashOf(name)),
  'against it': (name) => elementKey(1e6 - name, hashOf(name)),
  'all at one time': (name) => elementKey(0, hashOf(name)),
  'from both ends to the middle': (name) => elementKey(name % 2 === 0 ? name : 1e6 - name, hashOf(name)),
}

test.each(Object.entries(orders))(
  'T19 a tree filled %s stays flat and full, and gives back what is deleted',
  (_, of) => {
    let tree = treeOf(new Uint8Array())
    for (let name = 0; name < 5000; name++) tree = withKey(tree, of(name))
    expect(shapeOf(tree).depth).toBeLessThanOrEqual(4)
    expect(shapeOf(tree).leaves).toBeLessThan(5000 / 24)
    // All but each hundredth leave again, the oldest first.
    for (let name = 0; name < 5000; name++) if (name % 100 !== 0) tree = withoutKey(tree, of(name))
    expect(tree.count).toBe(50)
    expect(shapeOf(tree).leaves).toBeLessThan(12)
    for (let name = 0; name < 5000; name += 100) tree = withoutKey(tree, of(name))
    expect([tree.count, tree.keys.length, shapeOf(tree).depth]).toEqual([0, 0, 1])
    expect(tree.sum).toEqual(emptySum())
  },
)

test('a tree of sorted keys is the same set as one that grew', () => {
  const keys = Array.from({ length: 3000 }, (_, name) => keyOf(name)).sort(compareKeys)
  const built = treeOf(Buffer.concat(keys))
  const grown = keys.reduce(withKey, treeOf(new Uint8Array()))
  expect([built.count, built.sum]).toEqual([grown.count, grown.sum])
  expect(built.count * KEY_BYTES).toBe(3000 * KEY_BYTES)
})

test('elements that come in the order of time fill the leaves they leave behind', () => {
  let tree = treeOf(new Uint8Array())
  for (let name = 0; name < 5000; name++) tree = withKey(tree, elementKey(name, hashOf(name)))
  expect(shapeOf(tree).leaves).toBeLessThan(5000 / 60)
})

test('whole blocks can leave, newest first, oldest first or from the middle', () => {
  const keys = Array.from({ length: 6000 }, (_, name) => elementKey(name, hashOf(name)))
  for (const [from, to] of [
    [1400, 3400],
    [0, 3100],
    [2900, 6000],
  ] as const) {
    for (const order of [1, -1]) {
      const index = new RangeIndex(keys)
      const block = keys.slice(from, to)
      for (const key of order === 1 ? block : block.toReversed()) expect(index.delete(key)).toBe(true)
      const left = [...keys.slice(0, from), ...keys.slice(to)]
      expectToHold(index.snapshot(), left, [boundAt(from), boundAt(to), boundAt(100), boundAt(5900)])
      for (const key of block) index.add(key)
      expectToHold(index.snapshot(), keys, [boundAt(from)])
    }
  }
})

test('a branch between two full ones can be emptied', () => {
  // Four branches of 28 leaves of 56 keys; four leaves on either side of the third are made to split.
  const [leaf, branch] = [56, 28 * 56]
  const old = Array.from({ length: 4 * branch }, (_, name) => elementKey(10 * name, hashOf(name)))
  const added = [branch, 3 * branch].flatMap((start) =>
    Array.from({ length: 4 * 9 }, (_, name) => start + Math.floor(name / 9) * leaf + (name % 9)),
  )
  const more = added.map((name) => elementKey(10 * name + 5, hashOf(name)))
  const full = more.reduce(withKey, treeOf(Buffer.concat(old)))
  expect(full.children?.map(({ children }) => children?.length)).toEqual([28, 32, 28, 32])

  const index = new RangeIndex([...old, ...more])
  let tree = full
  for (const key of old.slice(2 * branch, 3 * branch)) {
    tree = withoutKey(tree, key)
    index.delete(key)
  }
  const left = [...old.slice(0, 2 * branch), ...old.slice(3 * branch), ...more]
  for (const key of left) tree = withoutKey(tree, key)
  expect([tree.count, tree.sum]).toEqual([0, emptySum()])
  expectToHold(index.snapshot(), left, [old[2 * branch]!, old[3 * branch]!, END])
})

test('an index of packed keys, in any order and with doubles, is that of the keys', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 400 }), (names) => {
      const keys = names.map((name) => keyOf(name))
      const [packed, listed] = [RangeIndex.ofPacked(Buffer.concat(keys)).snapshot(), new RangeIndex(keys).snapshot()]
      expect(hex(packed.keys(0, packed.size))).toBe(hex(listed.keys(0, listed.size)))
      expect(packed.sum(0, packed.size)).toEqual(listed.sum(0, listed.size))
    }),
    { numRuns: 30 },
  )
})
