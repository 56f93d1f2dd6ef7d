import { compareKeys, type ElementKey, KEY_BYTES } from './element-key.ts'
import { addElements, addSum, type ElementSum, emptySum, minus, plus } from './element-sum.ts'

/**
 * A B+ tree of element keys. Each node knows how many elements it holds and their sum. Nodes never change. A new tree
 * shares all nodes with the old tree, except those on the path to the change. A snapshot is therefore only a reference.
 */
export type TreeNode = {
  readonly count: number
  readonly sum: ElementSum
  /** The packed keys of the first leaf below this node. A leaf holds its own keys. */
  readonly keys: Uint8Array
  readonly children: readonly TreeNode[] | undefined
}

/** Keys in a leaf. A sum scans half of them on average, and each leaf costs half a kilobyte in addition to its keys. */
const LEAF_MAX = 64
const CHILDREN_MAX = 32

export const emptyTree: TreeNode = leafOf(new Uint8Array())

/** A tree of packed keys in ascending order. */
export function treeOf(keys: Uint8Array): TreeNode {
  let nodes: TreeNode[] = []
  // Leaves are not quite full, so that the first changes split nothing.
  for (const [from, to] of evenParts(keys.length / KEY_BYTES, (LEAF_MAX * 7) / 8)) {
    nodes.push(leafOf(keys.slice(from * KEY_BYTES, to * KEY_BYTES)))
  }
  while (nodes.length > 1) {
    nodes = evenParts(nodes.length, (CHILDREN_MAX * 7) / 8).map(([from, to]) => branchOf(nodes.slice(from, to)))
  }
  return nodes[0] ?? emptyTree
}

export function rankOf(root: TreeNode, bound: Uint8Array): number {
  let node = root
  let rank = 0
  while (node.children !== undefined) {
    const index = childOf(node.children, bound)
    for (let before = 0; before < index; before++) rank += node.children[before]!.count
    node = node.children[index]!
  }
  return rank + indexIn(node.keys, bound)
}

export function keyAt(root: TreeNode, rank: number): ElementKey {
  let node = root
  let rest = rank
  while (node.children !== undefined) {
    let index = 0
    while (rest >= node.children[index]!.count) rest -= node.children[index++]!.count
    node = node.children[index]!
  }
  return node.keys.subarray(rest * KEY_BYTES, (rest + 1) * KEY_BYTES)
}

/** Adds the elements of the ranks `from` to `to` to `sum`. */
export function addRange(node: TreeNode, from: number, to: number, sum: ElementSum): void {
  if (from === 0 && to === node.count) {
    addSum(sum, node.sum)
    return
  }
  if (node.children === undefined) {
    addElements(sum, node.keys, from, to)
    return
  }
  let start = 0
  for (const child of node.children) {
    const [first, last] = [Math.max(from, start), Math.min(to, start + child.count)]
    if (first < last) addRange(child, first - start, last - start, sum)
    start += child.count
    if (start >= to) return
  }
}

/** Copies the keys of the ranks `from` to `to`, packed, to the beginning of `into`. */
export function copyKeys(node: TreeNode, from: number, to: number, into: Uint8Array): void {
  if (node.children === undefined) {
    into.set(node.keys.subarray(from * KEY_BYTES, to * KEY_BYTES))
    return
  }
  let start = 0
  for (const child of node.children) {
    const [first, last] = [Math.max(from, start), Math.min(to, start + child.count)]
    if (first < last) copyKeys(child, first - start, last - start, into.subarray((first - from) * KEY_BYTES))
    start += child.count
    if (start >= to) return
  }
}

export function hasKey(root: TreeNode, key: ElementKey): boolean {
  let node = root
  while (node.children !== undefined) node = node.children[childOf(node.children, key)]!
  return isAt(node.keys, indexIn(node.keys, key), key)
}

/** The tree plus a key that it does not have. */
export function withKey(root: TreeNode, key: ElementKey): TreeNode {
  const nodes = put(root, key, sumOf(key), true)
  return nodes.length === 1 ? nodes[0]! : branchOf(nodes)
}

/** The tree minus a key that it has. */
export function withoutKey(root: TreeNode, key: ElementKey): TreeNode {
  let node = take(root, key, sumOf(key))
  while (node.children?.length === 1) node = node.children[0]!
  return node
}

function put(node: TreeNode, key: ElementKey, added: ElementSum, isLast: boolean): TreeNode[] {
  const sum = plus(node.sum, added)
  if (node.children === undefined) {
    const index = indexIn(node.keys, key) * KEY_BYTES
    const keys = new Uint8Array(node.keys.length + KEY_BYTES)
    keys.set(node.keys.subarray(0, index))
    keys.set(key, index)
    keys.set(node.keys.subarray(index), index + KEY_BYTES)
    if (node.count < LEAF_MAX) return [leafOf(keys, sum)]
    // Times grow, so most keys are appended. Appending to the last leaf leaves a full leaf behind, not a half-full one.
    const isAppended = isLast && index === node.keys.length
    return splitLeaf(keys, sum, isAppended ? LEAF_MAX : (LEAF_MAX + 1) >> 1)
  }
  const index = childOf(node.children, key)
  const nodes = put(node.children[index]!, key, added, isLast && index === node.children.length - 1)
  const children = node.children.toSpliced(index, 1, ...nodes)
  if (children.length <= CHILDREN_MAX) return [branchOf(children, sum)]
  const half = children.length >> 1
  return [branchOf(children.slice(0, half)), branchOf(children.slice(half))]
}

function take(node: TreeNode, key: ElementKey, removed: ElementSum): TreeNode {
  const sum = minus(node.sum, removed)
  if (node.children === undefined) {
    const index = indexIn(node.keys, key) * KEY_BYTES
    const keys = new Uint8Array(node.keys.length - KEY_BYTES)
    keys.set(node.keys.subarray(0, index))
    keys.set(node.keys.subarray(index + KEY_BYTES), index)
    return leafOf(keys, sum)
  }
  const index = childOf(node.children, key)
  const children = node.children.with(index, take(node.children[index]!, key, removed))
  return branchOf(joined(children, index), sum)
}

/** Joins a child that became small with a neighbor that has room for it. Only a single child may be empty. */
function joined(children: TreeNode[], index: number): TreeNode[] {
  const changed = children[index]!
  if (children.length === 1 || sizeOf(changed) * 4 >= sizeMaxOf(changed)) return children
  if (changed.count === 0) return children.toSpliced(index, 1)
  for (const left of [index - 1, index]) {
    const [a, b] = [children[left], children[left + 1]]
    if (a === undefined || b === undefined || sizeOf(a) + sizeOf(b) > sizeMaxOf(a)) continue
    return children.toSpliced(left, 2, join(a, b))
  }
  return children
}

function join(a: TreeNode, b: TreeNode): TreeNode {
  const sum = plus(a.sum, b.sum)
  if (a.children !== undefined && b.children !== undefined) return branchOf([...a.children, ...b.children], sum)
  const keys = new Uint8Array(a.keys.length + b.keys.length)
  keys.set(a.keys)
  keys.set(b.keys, a.keys.length)
  return leafOf(keys, sum)
}

function splitLeaf(keys: Uint8Array, sum: ElementSum, at: number): TreeNode[] {
  const right = leafOf(keys.slice(at * KEY_BYTES))
  return [leafOf(keys.slice(0, at * KEY_BYTES), minus(sum, right.sum)), right]
}

function leafOf(keys: Uint8Array, sum = sumOf(keys)): TreeNode {
  return { count: keys.length / KEY_BYTES, sum, keys, children: undefined }
}

function branchOf(children: readonly TreeNode[], known?: ElementSum): TreeNode {
  const sum = known ?? emptySum()
  if (known === undefined) for (const child of children) addSum(sum, child.sum)
  return { count: children.reduce((count, child) => count + child.count, 0), sum, keys: children[0]!.keys, children }
}

function sumOf(keys: Uint8Array): ElementSum {
  const sum = emptySum()
  addElements(sum, keys, 0, keys.length / KEY_BYTES)
  return sum
}

function sizeOf(node: TreeNode): number {
  return node.children?.length ?? node.count
}

function sizeMaxOf(node: TreeNode): number {
  return node.children === undefined ? LEAF_MAX : CHILDREN_MAX
}

/** The last child that begins at or before the key, otherwise the first child. */
function childOf(children: readonly TreeNode[], key: Uint8Array): number {
  let [low, high] = [1, children.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (compareKeys(children[middle]!.keys, key) <= 0) low = middle + 1
    else high = middle
  }
  return low - 1
}

function indexIn(keys: Uint8Array, key: Uint8Array): number {
  let [low, high] = [0, keys.length / KEY_BYTES]
  while (low < high) {
    const middle = (low + high) >> 1
    if (compareKeys(keys, key, middle * KEY_BYTES) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function isAt(keys: Uint8Array, index: number, key: Uint8Array): boolean {
  return index * KEY_BYTES < keys.length && compareKeys(keys, key, index * KEY_BYTES) === 0
}

/** Splits a count into parts of nearly equal size, at most `sizeMax` each. */
function evenParts(count: number, sizeMax: number): [from: number, to: number][] {
  const parts = Math.ceil(count / sizeMax)
  const cut = (part: number) => Math.floor((count * part) / parts)
  return Array.from({ length: parts }, (_, part) => [cut(part), cut(part + 1)])
}
