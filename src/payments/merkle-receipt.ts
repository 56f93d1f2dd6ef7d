import { BoundedMap } from '../lib/bounded-map.ts'
import { getOr } from '../lib/get-or.ts'
import type { Hex } from '../schema/primitives.ts'
import type { MerkleReceipt, Receipt } from '../schema/receipt.ts'
import { recoverSigner, typedDigest } from './authorization.ts'
import { keccak256 } from './keccak.ts'
import { KnownParents, leafHash, merkleTree, rootFrom } from './merkle-tree.ts'
import { addressOfPublicKey } from './secp256k1.ts'
import { textHash } from './text-hash.ts'

const WORD_BYTES = 32
/** Trees remembered. The answers of one turn arrive close together. Beyond it the oldest is forgotten. */
const TREES_MAX = 64

/** The EIP-712 domain of what Stoa signs over receipts. It has no chain: receipts never go to one. */
const DOMAIN = keccak256(
  Buffer.concat([textHash('EIP712Domain(string name,string version)'), textHash('Stoa receipts'), textHash('1')]),
)
const ROOT_TYPE = textHash('ReceiptRoot(uint256 treeSize,bytes32 root)')

/** All that a seller signs for the receipts of one turn. */
export type ReceiptRoot = { root: Hex; treeSize: number }

export function receiptRootDigest({ root, treeSize }: ReceiptRoot): Uint8Array {
  const words = Buffer.alloc(3 * WORD_BYTES)
  words.set(ROOT_TYPE, 0)
  words.writeBigUInt64BE(BigInt(treeSize), 2 * WORD_BYTES - 8)
  words.write(root.slice(2), 2 * WORD_BYTES, WORD_BYTES, 'hex')
  return typedDigest(DOMAIN, words)
}

/** The leaf of a receipt: its fields as canonical JSON (RFC 8785), which sorts them by name. @internal Exported for its test. */
export function receiptLeaf(receipt: Receipt): Hex {
  const { issuedAt, network, payer, paymentId, resourceUrl, resultHash, taskHash, transaction, version } = receipt
  const sorted = { issuedAt, network, payer, paymentId, resourceUrl, resultHash, taskHash, transaction, version }
  return leafHash(JSON.stringify(sorted))
}

/** Puts receipts under one signature. @returns the signed receipts in the order of the given ones */
export function signTogether(receipts: readonly Receipt[], sign: (root: ReceiptRoot) => Hex): MerkleReceipt[] {
  const sorted = receipts.map((payload, at) => ({ payload, at })).sort(byPaymentId)
  const { root, inclusions } = merkleTree(sorted.map(({ payload }) => receiptLeaf(payload)))
  const signature = sign({ root, treeSize: receipts.length })
  const signed: MerkleReceipt[] = []
  for (const [leafIndex, { payload, at }] of sorted.entries()) {
    const { path } = inclusions[leafIndex]!
    signed[at] = { format: 'merkle', payload, leafIndex, treeSize: receipts.length, path, signature }
  }
  return signed
}

/** The root that a receipt leads to. Undefined if its path does not fit its leaf index. */
function rootOf({ payload, leafIndex: index, treeSize: size, path }: MerkleReceipt, parents: KnownParents) {
  return rootFrom(receiptLeaf(payload), { index, size, path: path as Hex[] }, parents)
}

/** `seen`: how many of its receipts have come. Its hashes are dropped after the last one. */
type SignedTree = { parents: KnownParents; seen: number; root?: Hex; size?: number; signer?: Hex | undefined }

/** Trees by the signatures of their roots. */
const trees = new BoundedMap<string, SignedTree>(TREES_MAX)

/** The account that signed the root of a receipt. Receipts with the same root cost one recovery. */
export function merkleSigner(receipt: MerkleReceipt): Hex | undefined {
  const { treeSize, signature } = receipt
  const tree = getOr(trees, signature, (): SignedTree => ({ parents: new KnownParents(), seen: 0 }))
  const root = rootOf(receipt, tree.parents)
  if (root === undefined) return undefined
  if (++tree.seen === treeSize) tree.parents = new KnownParents()
  if (tree.root === root && tree.size === treeSize) return tree.signer
  const recovered = recoverSigner(receiptRootDigest({ root, treeSize }), signature)
  const signer = recovered.ok ? addressOfPublicKey(recovered.publicKey) : undefined
  Object.assign(tree, { root, size: treeSize, signer })
  return signer
}

type Leaf = { payload: Receipt; at: number }

function byPaymentId({ payload: a }: Leaf, { payload: b }: Leaf): number {
  return a.paymentId < b.paymentId ? -1 : a.paymentId > b.paymentId ? 1 : 0
}
