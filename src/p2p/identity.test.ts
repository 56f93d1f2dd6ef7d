import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { generateKeyPair, privateKeyToProtobuf } from '@libp2p/crypto/keys'
import { expect, test } from 'vitest'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { didOfPeer } from './did.ts'
import { loadOrCreateIdentity } from './identity.ts'

const scratch = () => join(mkdtempSync(join(tmpdir(), 'stoa-identity-')), 'identity.key')
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

test('D3: the first call makes a key file that only its owner may read, later calls give the same identity', async () => {
  const path = scratch()
  const first = await loadOrCreateIdentity(path)
  expect(modeOf(path)).toBe('600')
  expect(readFileSync(path).byteLength).toBe(68)
  expect(first.did).toBe(didOfPeer(first.peerId))
  const second = await loadOrCreateIdentity(path)
  expect(second.peerId).toBe(first.peerId)
  expect(second.privateKey.equals(first.privateKey)).toBe(true)
  expect(readdirSync(join(path, '..'))).toEqual(['identity.key'])
})

test('T16: callers at the same time agree on one key, and leave no draft', async () => {
  const path = scratch()
  const all = await Promise.all(Array.from({ length: 8 }, () => loadOrCreateIdentity(path)))
  expect(new Set(all.map(({ peerId }) => peerId)).size).toBe(1)
  expect(readdirSync(join(path, '..'))).toEqual(['identity.key'])
})

test('T16: a draft that a killed process left behind does not stand in the way', async () => {
  const path = scratch()
  writeFileSync(`${path}.0123456789ab.tmp`, 'half a k')
  const { peerId } = await loadOrCreateIdentity(path)
  expect((await loadOrCreateIdentity(path)).peerId).toBe(peerId)
})

test('T21: a file that others may read is closed to them, and the operator is told', async () => {
  const path = scratch()
  const { peerId } = await loadOrCreateIdentity(path)
  chmodSync(path, 0o644)
  const warnings: string[] = []
  const logger: Logger = { ...silentLogger, warn: (_fields, message) => warnings.push(message) }
  expect((await loadOrCreateIdentity(path, { logger })).peerId).toBe(peerId)
  expect(modeOf(path)).toBe('600')
  expect(warnings).toEqual([expect.stringContaining('0600')])
})

test.each([
  ['an empty file', () => new Uint8Array(0)],
  ['a file cut short', (key: Uint8Array) => key.subarray(0, 40)],
  ['a file that is too long', (key: Uint8Array) => Uint8Array.of(...key, 0)],
  ['something else of the right size', (key: Uint8Array) => key.map(() => 0x41)],
  ['a key whose public half was damaged', (key: Uint8Array) => key.map((byte, at) => (at === 67 ? byte ^ 1 : byte))],
  ['a key whose private half was damaged', (key: Uint8Array) => key.map((byte, at) => (at === 10 ? byte ^ 1 : byte))],
])('T16: %s is refused with the fix, and never replaced', async (_what, damage) => {
  const path = scratch()
  const bytes = damage(privateKeyToProtobuf(await generateKeyPair('Ed25519')))
  writeFileSync(path, bytes)
  await expect(loadOrCreateIdentity(path)).rejects.toMatchObject({
    code: 'IDENTITY_UNREADABLE',
    message: expect.stringMatching(/identity\.key.*backup/s),
  })
  expect(Buffer.compare(readFileSync(path), bytes)).toBe(0)
})

test('a key of another kind is refused', async () => {
  const path = scratch()
  const bytes = privateKeyToProtobuf(await generateKeyPair('secp256k1'))
  writeFileSync(path, bytes)
  await expect(loadOrCreateIdentity(path)).rejects.toMatchObject({ code: 'IDENTITY_UNREADABLE' })
})

test('a folder in its place is refused', async () => {
  const path = scratch()
  mkdirSync(path)
  await expect(loadOrCreateIdentity(path)).rejects.toMatchObject({ code: 'IDENTITY_UNREADABLE' })
})

test('T16: a key that cannot be stored is an error that says so, and no key is made up', async () => {
  const path = join(scratch(), 'missing', 'identity.key')
  await expect(loadOrCreateIdentity(path)).rejects.toMatchObject({
    code: 'IDENTITY_UNWRITABLE',
    message: expect.stringContaining('data directory'),
  })
})

test('T21: neither JSON nor an inspected identity shows the private key', async () => {
  const identity = await loadOrCreateIdentity(scratch())
  const secret = Buffer.from(identity.privateKey.raw.subarray(0, 32))
  for (const shown of [JSON.stringify(identity), inspect(identity, { depth: 5 })]) {
    expect(shown).toContain(identity.peerId)
    expect(shown).not.toContain('privateKey')
    expect(shown).not.toContain(secret.toString('hex').slice(0, 8))
  }
})
