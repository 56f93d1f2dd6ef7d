import { hash, randomBytes } from 'node:crypto'
import { assets } from '../../src/payments/assets.ts'
import { authorizationDigest } from '../../src/payments/authorization.ts'
import { encodeTextFrame, type Frame } from '../../src/protocols/frame.ts'
import { channelMessages, type FloorMessage, messages } from './floor-messages.ts'
import { NETWORK, PAY_TO } from './terms.ts'

/*
 * What floors D and D1 do beside floors C and B1, and no implementation can leave out: each message is made for its call and
 * read, both sides hash what is signed, and each row is found again by its call.
 */

const asset = assets[NETWORK]
const ID_BYTES = 32
/** The fields of a receipt (ADR-33), but the id of the payment. */
const leaf = {
  network: NETWORK,
  payer: PAY_TO,
  payee: PAY_TO,
  agent: 'a'.repeat(52),
  amount: '10',
  total: '999010',
  seq: 99901,
}

/** A call: its id is the nonce of its authorization. */
export const newCallId = () => randomBytes(ID_BYTES)

/** A frame with the message of one call. */
export function frameOf(type: FloorMessage, id: string, text: string): Uint8Array {
  return ownFrame(type, messages[type], { id, text })
}

/** A frame with the message of one call on a channel. */
export function channelFrameOf(type: keyof typeof channelMessages, id: string, text: string): Uint8Array {
  return ownFrame(type, channelMessages[type], { id, text })
}

function ownFrame(type: FloorMessage, message: object, { id, text }: { id: string; text: string }): Uint8Array {
  return encodeTextFrame(type, JSON.stringify({ ...message, call: id, body: Buffer.from(text).toString('base64') }))
}

/** The call that a frame is about, and its task or result. */
export function readFrame({ data }: Frame): { id: string; text: string } {
  const { call, body } = JSON.parse(Buffer.from(data.buffer, data.byteOffset, data.length).toString()) as {
    call: string
    body: string
  }
  return { id: call, text: Buffer.from(body, 'base64').toString() }
}

/** The cost of the leaf that a receipt of the turn has for a call: its seller signs the root above it, and its buyer checks it. */
export function hashLeaf(id: string): void {
  hash('sha256', JSON.stringify({ ...leaf, payment: id }), 'buffer')
}

/** The cost of the digest that a payer signs and a seller checks. */
export function hashAuthorization(id: string): void {
  const [validAfter, validBefore] = [1_893_456_000n, 1_893_456_420n]
  authorizationDigest(asset, { from: PAY_TO, to: PAY_TO, value: 1000n, validAfter, validBefore, nonce: `0x${id}` })
}
