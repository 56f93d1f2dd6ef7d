import { encodeTextFrame } from '../../src/protocols/frame.ts'
import { NETWORK, PAY_TO, TASK } from './terms.ts'

/**
 * The frames of a paid call, made once: the same types, fields and sizes as ours.
 *
 * The floors send these bytes, and read only the type of each answer.
 */
const hash = (digit: string) => `0x${digit.repeat(64)}`
const did = `did:peer:0z6Mk${'a'.repeat(44)}`
const body = Buffer.from(TASK).toString('base64')
const header = { version: '1.0', correlation_id: '8f14e45f-ceea-467f-ab1c-1b0f2a7d3c11' }
const authorization = {
  from: PAY_TO,
  to: PAY_TO,
  value: '1000',
  validAfter: '1893456000',
  validBefore: '1893456420',
  nonce: hash('1'),
}

export const messages = {
  'x402.request': { ...header, resource: 'a'.repeat(52), method: 'execute', payment: null, body, caller_did: did },
  'x402.payment_required': {
    ...header,
    challenge_nonce: hash('1'),
    challenge_expires_at: 1893456300,
    payment_requirements: {
      scheme: 'exact',
      network: NETWORK,
      amount: '1000',
      asset: PAY_TO,
      payTo: PAY_TO,
      maxTimeoutSeconds: 420,
    },
    message: 'payment required',
    seller_did: did,
  },
  'x402.paid_request': {
    ...header,
    payment: {
      x402_version: 2,
      scheme: 'exact',
      network: NETWORK,
      server_nonce: hash('1'),
      payer: PAY_TO,
      payload: { signature: `0x${'2'.repeat(130)}`, authorization },
    },
    body,
    caller_did: did,
  },
  'x402.response': {
    ...header,
    payment_id: hash('3'),
    tx_hash: hash('4'),
    body,
    seller_did: did,
    seller_token_id: '',
  },
} as const
export type FloorMessage = keyof typeof messages

export const frames = Object.fromEntries(
  Object.entries(messages).map(([type, message]) => [type, encodeTextFrame(type, JSON.stringify(message))]),
) as Record<FloorMessage, Uint8Array>

/** The two messages of a call on a channel, in one round trip. */
export const channelMessages = {
  'x402.request': {
    ...messages['x402.request'],
    payment: {
      ...{ x402_version: 2, scheme: 'batch-settlement', network: NETWORK, server_nonce: 'preemptive', payer: PAY_TO },
      channel: {
        voucher: { channelId: hash('5'), maxClaimableAmount: '1000000', signature: `0x${'2'.repeat(130)}` },
        counted: { total: '999000', seq: 99900 },
        asked: '10',
      },
    },
    receipt: 'merkle',
  },
  'x402.response': { ...messages['x402.response'], tx_hash: '', charge: { amount: '10', total: '999010', seq: 99901 } },
} as const
export const channelFrames = {
  'x402.request': encodeTextFrame('x402.request', JSON.stringify(channelMessages['x402.request'])),
  'x402.response': encodeTextFrame('x402.response', JSON.stringify(channelMessages['x402.response'])),
} as const
