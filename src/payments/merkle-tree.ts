import { hash } from 'node:crypto'
import type { Hex } from '../schema/primitives.ts'

/*
 * The Merkle tree of RFC 9162 (certificate transparency), section 2.1. Leaves and inner nodes are hashed under different
 * prefixes, so no inner node can be passed off as a leaf. A node without a neighbor moves up unchanged: with copies of it,
 * two lists would have the same root.
 *
 * Nodes are 32 bytes as hex in lower case, as receipts carry them.
 */

/** Parent hashes remembered of one tree. */
const PARENTS_MAX = 1024
/** More than the nodes of one level, so that a height and a place make one key. */
const PLACES_MAX = 2 ** 32

/** The place of a leaf in a tree, and the neighbors on the way from it to the root, the lowest first. */
type Inclusion = { index: number; size: number; path: Hex[] }

/** The hash of a leaf: SHA-256 of a zero byte and the content as UTF-8. */
export function leafHash(content: string): Hex {
  return `0x${hash('sha256', `\0${content}`, 'hex')}`
}

/** @param leaves one or more leaf hashes, in order */
export function merkleTree(leaves: readonly Hex[]): { root: Hex; inclusions: Inclusion[] } {
  const inclusions = leaves.map((_leaf, index) => ({ index, size: leaves.length, path: [] as Hex[] }))
  let level = leaves
  for (let height = 0; level.length > 1; height++) {
    for (const { index, path } of inclusions) {
      const neighbor = level[(index >>> height) ^ 1]
      if (neighbor !== undefined) path.push(neighbor)
    }
    level = levelAbove(level)
  }
  const [root] = level
  if (root === undefined) throw new RangeError('a tree needs a leaf')
  return { root, inclusions }
}

type Parent = { left: Hex; right: Hex; hash: Hex }

/**
 * The parent hashes of one tree, by height and place. The receipts of a turn arrive close together and share most of their
 * paths, so each parent is hashed once. A path may be false: a hash is used only if both of its children are the same.
 */
export class KnownParents {
  readonly #parents = new Map<number, Parent>()

  of(left: Hex, right: Hex, at: { height: number; place: number }): Hex {
    const key = at.height * PLACES_MAX + at.place
    const known = this.#parents.get(key)
    if (known?.left === left && known.right === right) return known.hash
    const hash = nodeHash(left, right)
    if (this.#parents.size < PARENTS_MAX) this.#parents.set(key, { left, right, hash })
    return hash
  }
}

/** The root of the tree that has this leaf at this place. Undefined if the path is not as long as the place wants it. */
export function rootFrom(leaf: Hex, { index, size, path }: Inclusion, parents = new KnownParents()): Hex | undefined {
  if (index >= size) return undefined
  let node = leaf
  let used = 0
  let [place, last] = [index, size - 1]
  for (let height = 0; last > 0; height++) {
    const isAlone = place === last && place % 2 === 0
    if (!isAlone) {
      const neighbor = path[used++]
      if (neighbor === undefined) return undefined
      const [left, right] = place % 2 === 1 ? [neighbor, node] : [node, neighbor]
      node = parents.of(left, right, { height, place: Math.floor(place / 2) })
    }
    place = Math.floor(place / 2)
    last = Math.floor(last / 2)
  }
  return used === path.length ? node : undefined
}

function levelAbove(level: readonly Hex[]): Hex[] {
  const above: Hex[] = []
  for (let at = 0; at < level.length; at += 2) {
    const [left, right] = [level[at]!, level[at + 1]]
    above.push(right === undefined ? left : nodeHash(left, right))
  }
  return above
}

function nodeHash(left: Hex, right: Hex): Hex {
  return `0x${hash('sha256', Buffer.from(`01${left.slice(2)}${right.slice(2)}`, 'hex'), 'hex')}`
}
