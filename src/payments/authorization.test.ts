import fc from 'fast-check'
import { hashTypedData, recoverTypedDataAddress } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { expect, test } from 'vitest'
import { readVectors } from '../../test/support/read-vectors.ts'
import { SignedAuthorization } from '../schema/payment.ts'
import type { Hex } from '../schema/primitives.ts'
import { assetOf, assets } from './assets.ts'
import { authorizationDigest, domainSeparator, paymentIdOf, recoverSigner, signDigest } from './authorization.ts'
import { addressOfPublicKey, nativeSecp256k1, nobleSecp256k1 } from './secp256k1.ts'

type Vectors = {
  domains: { network: string; name: string; version: string; chainId: number; domain_separator: string }[]
  authorizations: {
    about: string
    network: string
    private_key: Hex
    authorization: Record<string, string>
    digest: Hex
    signature: Hex
  }[]
  signatures: { about: string; signature: Hex; normalized: Hex | null }[]
}
const vectors = readVectors<Vectors>('authorizations')
const curves = [nobleSecp256k1(), nativeSecp256k1()].filter((curve) => curve !== undefined)
const bytes = (hex: string) => Buffer.from(hex.slice(2), 'hex')
const parse = ({ authorization, signature }: Vectors['authorizations'][number]) =>
  SignedAuthorization.parse({ authorization, signature })

test.each(['constructor', '__proto__', 'toString', ''])('T8, T14: the network %j has no asset', (network) => {
  expect(assetOf(network)).toBeUndefined()
})

test.each(vectors.domains)('T14: the domain of $network is that of its USDC', ({ network, ...domain }) => {
  const asset = assetOf(network)!
  expect({ ...domain }).toMatchObject({ name: asset.name, version: asset.version, chainId: asset.chainId })
  expect(Buffer.from(domainSeparator(asset)).toString('hex')).toBe(domain.domain_separator.slice(2))
})

test.each(vectors.authorizations)('D29: the payment id of $about on $network is its EIP-712 digest', (vector) => {
  const { authorization } = parse(vector)
  expect(paymentIdOf(authorizationDigest(assetOf(vector.network)!, authorization))).toBe(vector.digest)
})

test.each(vectors.authorizations)('$about on $network is signed and recovered as the vectors say', (vector) => {
  const { authorization, signature } = parse(vector)
  const digest = authorizationDigest(assetOf(vector.network)!, authorization)
  for (const curve of curves) {
    expect(signDigest(digest, bytes(vector.private_key), curve)).toBe(signature)
    const recovered = recoverSigner(digest, signature, curve)
    if (!recovered.ok) throw new Error(recovered.reason)
    expect(addressOfPublicKey(recovered.publicKey)).toBe(authorization.from)
  }
})

test.each(vectors.signatures)('D30: a signature with $about is taken in one form or refused', (vector) => {
  const [first] = vectors.authorizations
  for (const curve of curves) {
    const recovered = recoverSigner(bytes(first!.digest), vector.signature, curve)
    if (vector.normalized === null) expect(recovered).toMatchObject({ ok: false, reason: expect.any(String) })
    else {
      expect(recovered).toMatchObject({ ok: true, signature: vector.normalized })
      if (recovered.ok) expect(addressOfPublicKey(recovered.publicKey)).toBe(first!.authorization.from)
    }
  }
})

test('the same authorization is another payment on the other network (T14)', () => {
  const { authorization } = parse(vectors.authorizations[0]!)
  const ids = Object.values(assets).map((asset) => paymentIdOf(authorizationDigest(asset, authorization)))
  expect(new Set(ids).size).toBe(2)
})

const hex = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((raw) => `0x${Buffer.from(raw).toString('hex')}` as Hex)
const uint256 = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
const authorizations = fc.record({
  from: hex(20),
  to: hex(20),
  value: uint256,
  validAfter: uint256,
  validBefore: uint256,
  nonce: hex(32),
})
const types = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const

test('D29: the digest of any authorization is the one viem computes', () => {
  fc.assert(
    fc.property(fc.constantFrom(...Object.values(assets)), authorizations, (asset, authorization) => {
      const { name, version, chainId, address } = asset
      const domain = { name, version, chainId, verifyingContract: address }
      const theirs = hashTypedData({ domain, types, primaryType: 'TransferWithAuthorization', message: authorization })
      expect(paymentIdOf(authorizationDigest(asset, authorization))).toBe(theirs)
    }),
    { numRuns: 1000 },
  )
})

test('what this node signs viem recovers, and what viem signs this node recovers', async () => {
  await fc.assert(
    fc.asyncProperty(hex(32), authorizations, async (key, message) => {
      const asset = assets['eip155:84532']
      const { name, version, chainId, address } = asset
      const domain = { name, version, chainId, verifyingContract: address }
      const typed = { domain, types, primaryType: 'TransferWithAuthorization', message } as const
      const account = privateKeyToAccount(key)
      const digest = authorizationDigest(asset, message)
      const signature = signDigest(digest, bytes(key))
      expect(await account.signTypedData(typed)).toBe(signature)
      expect(await recoverTypedDataAddress({ ...typed, signature })).toBe(account.address)
      const recovered = recoverSigner(digest, signature)
      expect(recovered.ok && addressOfPublicKey(recovered.publicKey)).toBe(account.address)
    }),
    { numRuns: 30 },
  )
})
