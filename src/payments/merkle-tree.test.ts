import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readVectors } from '../../test/support/read-vectors.ts'
import type { Hex } from '../schema/primitives.ts'
import { leafHash, merkleTree, rootFrom } from './merkle-tree.ts'

type Vectors = { leaves: string[]; roots: string[]; paths: { index: number; size: number; path: string[] }[] }
const vectors = readVectors<{ tree: Vectors }>('merkle-receipts').tree
const toHex = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
const bytesOf = (node: Hex) => Buffer.from(node.slice(2), 'hex')
const bare = (node: Hex) => node.slice(2)
const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const leaf = (text: string) => toHex(sha256(Buffer.from(`00${text}`, 'hex')))

test('the tree is that of certificate transparency, by its test vectors', () => {
  const leaves = vectors.leaves.map(leaf)
  const roots = leaves.map((_leaf, last) => bare(merkleTree(leaves.slice(0, last + 1)).root))
  expect(roots).toEqual(vectors.roots)
  for (const { index, size, path } of vectors.paths) {
    const tree = merkleTree(leaves.slice(0, size))
    expect(tree.inclusions[index]!.path.map(bare)).toEqual(path)
    expect(rootFrom(leaves[index]!, tree.inclusions[index]!)).toEqual(tree.root)
  }
})

/** The definition of RFC 9162, 2.1.1: split at the largest power of two below the number of leaves. */
function treeHash(leaves: readonly Hex[]): Hex {
  if (leaves.length === 1) return leaves[0]!
  const half = 2 ** (Math.ceil(Math.log2(leaves.length)) - 1)
  const [left, right] = [treeHash(leaves.slice(0, half)), treeHash(leaves.slice(half))]
  return toHex(sha256(Buffer.of(1), bytesOf(left), bytesOf(right)))
}

const contents = fc.array(fc.string(), { minLength: 1, maxLength: 70 })
const place = contents.chain((texts) => fc.tuple(fc.constant(texts), fc.nat({ max: texts.length - 1 })))

describe('for any leaves', () => {
  test('the root is that of the definition, and every leaf has a path to it', () => {
    fc.assert(
      fc.property(contents, (texts) => {
        const leaves = texts.map(leafHash)
        const { root, inclusions } = merkleTree(leaves)
        expect(root).toBe(treeHash(leaves))
        for (const [index, inclusion] of inclusions.entries()) expect(rootFrom(leaves[index]!, inclusion)).toEqual(root)
      }),
    )
  })

  test('no other leaf, place, size or path leads to the root', () => {
    fc.assert(
      fc.property(place, fc.nat({ max: 80 }), fc.nat({ max: 80 }), fc.nat(), ([texts, index], other, size, at) => {
        const leaves = texts.map(leafHash)
        const { root, inclusions } = merkleTree(leaves)
        const inclusion = inclusions[index]!
        const isRoot = (changed: object, from = leaves[index]!) => rootFrom(from, { ...inclusion, ...changed }) === root
        expect(isRoot({}, leafHash(`${texts[index]}x`))).toBe(false)
        expect(isRoot({ path: [...inclusion.path, leaves[0]!] })).toBe(false)
        expect(isRoot({ path: inclusion.path.slice(1) })).toBe(inclusion.path.length === 0)
        if (other !== index && texts[other] !== texts[index]) expect(isRoot({ index: other })).toBe(false)
        // The size is signed with the root. A path alone does not show it in every case.
        if (size <= index) expect(isRoot({ size })).toBe(false)
        const path = inclusion.path.map(bytesOf)
        if (path.length > 0) {
          const changed = path[at % path.length]!
          changed[at % 32]! ^= 1
          expect(isRoot({ path: path.map(toHex) })).toBe(false)
        }
      }),
    )
  })

  test('an inner node is no leaf: the list of two inner nodes has another root', () => {
    fc.assert(
      fc.property(fc.tuple(fc.string(), fc.string(), fc.string(), fc.string()), (texts) => {
        const leaves = texts.map(leafHash)
        const { root } = merkleTree(leaves)
        const [left, right] = [merkleTree(leaves.slice(0, 2)).root, merkleTree(leaves.slice(2)).root]
        // Whoever could choose the content of a leaf would choose the two halves.
        const forged = toHex(sha256(Buffer.of(0), bytesOf(left), bytesOf(right)))
        expect(forged).not.toBe(root)
      }),
    )
  })

  test('a last leaf that comes twice is another tree', () => {
    fc.assert(
      fc.property(contents, (texts) => {
        const twice = merkleTree([...texts, texts.at(-1)!].map(leafHash)).root
        expect(twice).not.toBe(merkleTree(texts.map(leafHash)).root)
      }),
    )
  })
})

test('a tree without leaves has no root', () => {
  expect(() => merkleTree([])).toThrow('a tree needs a leaf')
})
