import { hash } from 'node:crypto'

/*
 * The Merkle tree of RFC 9162 (certificate transparency), section 2.1. Leaves and inner nodes are hashed under different
 * prefixes, so no inner node can be passed off as a leaf. A node without a neighbor moves up unchanged: with copies of it,
 * two lists would have the same root.
 */

const HASH_BYTES = 32
const NODE = 0x01

/** The place of a leaf in a tree, and the neighbors on the way from it to the root, the lowest first. */
type Inclusion = { index: number; size: number; path: readonly Uint8Array[] }

/** The hash of a leaf: SHA-256 of a zero byte and the content as UTF-8. */
export function leafHash(content: string): Uint8Array {
  return hash('sha256', `\0${content}`, 'buffer')
}

/** @param leaves one or more leaf hashes, in order */
export function merkleTree(leaves: readonly Uint8Array[]): { root: Uint8Array; inclusions: Inclusion[] } {
  const inclusions = leaves.map((_leaf, index) => ({ index, size: leaves.length, path: [] as Uint8Array[] }))
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

/** The root of the tree that has this leaf at this place. Undefined if the path is not as long as the place wants it. */
export function rootFrom(leaf: Uint8Array, { index, size, path }: Inclusion): Uint8Array | undefined {
  if (index >= size) return undefined
  let node = leaf
  let used = 0
  let [place, last] = [index, size - 1]
  while (last > 0) {
    const isAlone = place === last && place % 2 === 0
    if (!isAlone) {
      const neighbor = path[used++]
      if (neighbor === undefined) return undefined
      node = place % 2 === 1 ? nodeHash(neighbor, node) : nodeHash(node, neighbor)
    }
    place = Math.floor(place / 2)
    last = Math.floor(last / 2)
  }
  return used === path.length ? node : undefined
}

function levelAbove(level: readonly Uint8Array[]): Uint8Array[] {
  const above: Uint8Array[] = []
  for (let at = 0; at < level.length; at += 2) {
    const [left, right] = [level[at]!, level[at + 1]]
    above.push(right === undefined ? left : nodeHash(left, right))
  }
  return above
}

function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  const both = Buffer.allocUnsafe(1 + 2 * HASH_BYTES)
  both[0] = NODE
  both.set(left, 1)
  both.set(right, 1 + HASH_BYTES)
  return hash('sha256', both, 'buffer')
}
