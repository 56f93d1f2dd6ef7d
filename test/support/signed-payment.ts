import { randomBytes } from 'node:crypto'
import { encodeFunctionData, type Hex, parseSignature, serializeSignature, toHex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { NETWORK, usdcAbi, usdcDomain } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import { systemClock } from '../../src/lib/clock.ts'

/** What to sign, and which requirements differ from the signed values. */
export type PaymentSpec = {
  payerKey: Hex
  payTo: Hex
  amount?: bigint
  nonce?: Hex
  validAfter?: bigint
  validBefore?: bigint
  /** Replaces `payTo` and `amount` in the authorization. */
  to?: Hex
  value?: bigint
  /** The payer, if it is a contract that `payerKey` owns. */
  from?: Hex
  asset?: Hex
  network?: string
  /** The EIP-712 domain's name, in the signature and in `extra`. */
  domainName?: string
  /** Null leaves `extra` out of the requirements. */
  extra?: object | null
  /** Changes the complete signature. */
  alter?: (signature: Hex) => Hex
}

/** A request body for a facilitator, and the parts that tests read. */
export type SignedPayment = {
  from: Hex
  nonce: Hex
  signature: Hex
  authorization: Record<'from' | 'to' | 'value' | 'validAfter' | 'validBefore' | 'nonce', string>
  body: {
    x402Version: 2
    paymentPayload: { x402Version: 2; accepted: object; payload: { signature: string; authorization: object } }
    paymentRequirements: Record<string, unknown>
  }
}

const transferTypes = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const

export function randomHash(): Hex {
  return toHex(randomBytes(32))
}

/** Unix time this number of seconds from now. */
export function secondsFromNow(seconds: number): bigint {
  return BigInt(Math.floor(systemClock.now() / 1000) + seconds)
}

/** Signs an EIP-3009 transfer with viem, like a buyer of another implementation. */
export async function signPayment(spec: PaymentSpec): Promise<SignedPayment> {
  const account = privateKeyToAccount(spec.payerKey)
  const amount = spec.amount ?? 10_000n
  const asset = spec.asset ?? addresses.usdc
  const name = spec.domainName ?? usdcDomain.name
  const message = {
    from: spec.from ?? account.address,
    to: spec.to ?? spec.payTo,
    value: spec.value ?? amount,
    validAfter: spec.validAfter ?? 0n,
    validBefore: spec.validBefore ?? secondsFromNow(300),
    nonce: spec.nonce ?? randomHash(),
  }
  const signed = await account.signTypedData({
    domain: { ...usdcDomain, name, verifyingContract: asset },
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message,
  })
  const signature = spec.alter?.(signed) ?? signed
  const authorization = {
    ...message,
    value: String(message.value),
    validAfter: String(message.validAfter),
    validBefore: String(message.validBefore),
  }
  const requirements = {
    scheme: 'exact',
    network: spec.network ?? NETWORK,
    amount: String(amount),
    asset,
    payTo: spec.payTo,
    maxTimeoutSeconds: 300,
    ...(spec.extra === null ? {} : { extra: spec.extra ?? { name, version: usdcDomain.version } }),
  }
  const paymentPayload = {
    x402Version: 2 as const,
    accepted: requirements,
    payload: { signature, authorization },
  }
  return {
    from: message.from,
    nonce: message.nonce,
    signature,
    authorization,
    body: { x402Version: 2, paymentPayload, paymentRequirements: requirements },
  }
}

/** The call to USDC that settles a payment, with the signature in one piece. */
export function transferCalldata({ authorization: a, signature }: SignedPayment): Hex {
  const window = [BigInt(a.validAfter), BigInt(a.validBefore), a.nonce as Hex] as const
  const args = [a.from as Hex, a.to as Hex, BigInt(a.value), ...window, signature] as const
  return encodeFunctionData({ abi: usdcAbi, functionName: 'transferWithAuthorization', args })
}

const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** The other valid form of the same signature by the same signer. USDC refuses it. */
export function highS(signature: Hex): Hex {
  const { r, s, yParity } = parseSignature(signature)
  const flipped = `0x${(CURVE_ORDER - BigInt(s)).toString(16).padStart(64, '0')}` as Hex
  return serializeSignature({ r, s: flipped, yParity: yParity === 0 ? 1 : 0 })
}

/** Posts a body as JSON and reads the JSON answer. */
export async function postJson(url: string, body: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}
