import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeCertificate } from '../../../test/support/made-certificate.ts'
import { inspectTls } from './public-tls.ts'
import { isForHost, readTlsPair } from './tls-pair.ts'

const DAY_MS = 86_400_000
const now = Date.now()
let home: string
const files = () => ({ cert: join(home, 'cert.pem'), key: join(home, 'key.pem') })

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-tls-'))
})
afterAll(() => rm(home, { recursive: true, force: true }))

async function write(cert: string, key: string) {
  await writeFile(files().cert, cert)
  await writeFile(files().key, key)
}

test('a certificate with its chain and its key is a pair, for its hosts alone', async () => {
  const authority = makeCertificate({ name: 'authority', isAuthority: true })
  const own = makeCertificate({ hosts: ['agents.example', '192.0.2.1'], by: authority, until: new Date(now + DAY_MS) })
  await write(`a remark\n${own.cert}\n${authority.cert}`, own.key)
  const pair = await readTlsPair(files(), now)
  expect(Math.abs(pair.expiresAt - now - DAY_MS)).toBeLessThan(1_000)
  const hosts = ['https://agents.example', 'https://192.0.2.1:8425', 'https://other.example', 'https://192.0.2.2']
  expect(hosts.map((url) => isForHost(pair, url))).toEqual([true, true, false, false])
})

test('a chain of another certificate is told, and the order of a chain does not count', async () => {
  const authority = makeCertificate({ name: 'authority', isAuthority: true })
  const other = makeCertificate({ name: 'other', isAuthority: true })
  const own = makeCertificate({ by: authority })
  const notes = async (...chain: { cert: string }[]) => {
    await write([own, ...chain].map(({ cert }) => cert).join('\n'), own.key)
    return (await inspectTls(files(), { url: undefined, now })).notes.filter((note) => note.includes('issued'))
  }
  expect(await notes(other)).toEqual([expect.stringMatching(/none of them issued the own one: clients refuse it/)])
  expect(await notes(other, authority)).toEqual([])
  // Its authority may be one that all clients have.
  expect(await notes()).toEqual([])
})

const good = makeCertificate()
const past = { from: new Date(now - 2 * DAY_MS), until: new Date(now - DAY_MS) }
const future = { from: new Date(now + DAY_MS), until: new Date(now + 2 * DAY_MS) }
const broken = good.cert.replace(/[A-Za-z0-9]{20}/, 'AAAAAAAAAAAAAAAAAAAA')
test.each<[string, string, string, RegExp]>([
  ['another key', good.cert, makeCertificate().key, /key\.pem does not belong to the certificate in .*cert\.pem/],
  ['the chain first', makeCertificate().cert + good.cert, good.key, /begins with the own one, before its chain/],
  ['an expired one', ...pairOf(past), /expired on \d{4}-.*: renew it/],
  ['one of the future', ...pairOf(future), /is not valid before \d{4}-.*: look at the clock/],
  ['no certificate', 'nothing', good.key, /cert\.pem holds no certificate: it must be PEM/],
  ['the files swapped', good.key, good.cert, /holds no certificate/],
  ['a broken one', broken, good.key, /certificate 1 in .* cannot be read/],
  ['a broken one in the chain', good.cert + broken, good.key, /certificate 2 in .* cannot be read/],
  ['no key', good.cert, '', /key\.pem holds no key that can be used: it must be an unencrypted private key in PEM/],
  ['an encrypted key', good.cert, encrypted(), /it is encrypted: store it without a passphrase/],
  ['a file that is too large', 'x'.repeat(300_000), good.key, /it has more than 262144 bytes/],
])('%s is refused, with what to do', async (_, cert, key, message) => {
  await write(cert, key)
  await expect(readTlsPair(files(), now)).rejects.toMatchObject({
    code: 'PUBLIC_TLS_UNUSABLE',
    message: expect.stringMatching(message),
  })
})

test('a file that is missing is named with its setting', async () => {
  const missing = { cert: files().cert, key: join(home, 'none.pem') }
  await write(good.cert, good.key)
  await expect(readTlsPair(missing, now)).rejects.toThrow(/public\.tls_key: .*none\.pem .*there is no such file/)
})

function pairOf(times: { from: Date; until: Date }): [string, string] {
  const { cert, key } = makeCertificate(times)
  return [cert, key]
}

function encrypted(): string {
  const cipher = { cipher: 'aes-256-cbc', passphrase: 'secret' }
  return good.privateKey.export({ type: 'pkcs8', format: 'pem', ...cipher }) as string
}
