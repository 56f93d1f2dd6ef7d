import { base58btc } from 'multiformats/bases/base58'
import { CodedError } from '../lib/errors.ts'

/**
 * The first bytes of an Ed25519 peer id. They are the identity multihash (0x00, 36 bytes) of a protobuf key (type 1, 32
 * bytes of data).
 */
const PEER_ID_HEAD = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20]
/** Multicodec `ed25519-pub` as a varint. */
const MULTIKEY_HEAD = [0xed, 0x01]
const KEY_BYTES = 32

const PEER_ID = /^12D3KooW[1-9A-HJ-NP-Za-km-z]{44}$/
const DID = /^did:peer:0(z6Mk[1-9A-HJ-NP-Za-km-z]{44})$/

/**
 * A node's DID (did:peer method 0, D25). It is another spelling of the peer id, because both contain only the Ed25519
 * key.
 *
 * @throws CodedError `BAD_PEER_ID` for anything but an Ed25519 peer id (`12D3KooW…`)
 */
export function didOfPeer(peerId: string): string {
  const key = PEER_ID.test(peerId) ? keyBehind(PEER_ID_HEAD, `z${peerId}`) : undefined
  if (key === undefined) {
    throw new CodedError('BAD_PEER_ID', `not the peer id of an Ed25519 key (12D3KooW…): ${clip(peerId)}`)
  }
  return `did:peer:0${base58btc.encode(Uint8Array.of(...MULTIKEY_HEAD, ...key))}`
}

/**
 * The peer id of a DID.
 *
 * @throws CodedError `BAD_DID` for anything but did:peer method 0 of an Ed25519 key (`did:peer:0z6Mk…`)
 */
export function peerOfDid(did: string): string {
  const multikey = DID.exec(did)?.[1]
  const key = multikey === undefined ? undefined : keyBehind(MULTIKEY_HEAD, multikey)
  if (key === undefined) {
    throw new CodedError('BAD_DID', `not a did:peer:0z6Mk… DID: ${clip(did)}`)
  }
  return base58btc.encode(Uint8Array.of(...PEER_ID_HEAD, ...key)).slice(1)
}

/** The last name that was read: each answer of a seller has it. */
let lastNamed: { did: string; peerId: string } | undefined

/** The peer id of a DID. Undefined if the text is not the DID of a peer. */
export function peerNamed(did: string): string | undefined {
  if (lastNamed?.did === did) return lastNamed.peerId
  try {
    lastNamed = { did, peerId: peerOfDid(did) }
    return lastNamed.peerId
  } catch {
    return undefined
  }
}

/** The key after `head` in multibase text. Undefined if the text has any other content. */
function keyBehind(head: readonly number[], multibase: string): Uint8Array | undefined {
  const bytes = base58btc.decode(multibase)
  if (bytes.length !== head.length + KEY_BYTES || head.some((byte, index) => bytes[index] !== byte)) return undefined
  return bytes.subarray(head.length)
}

function clip(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
