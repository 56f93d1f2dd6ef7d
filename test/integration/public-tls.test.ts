/** T36: the public listener with a certificate of its own, on real TLS sockets. */
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { AgentSale } from '../../src/http/public/agent-sale.ts'
import { createSiteReader } from '../../src/http/public/client-site.ts'
import { PublicLimits, publicLimits } from '../../src/http/public/public-limits.ts'
import { createPublicListener } from '../../src/http/public/public-listener.ts'
import { createPublicTls } from '../../src/http/public/public-tls.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { type Logger, silentLogger } from '../../src/lib/logger.ts'
import { Meters } from '../../src/lib/meters.ts'
import type { Diagnosis } from '../../src/schema/diagnosis.ts'
import { ask } from '../support/api-calls.ts'
import { HandClock } from '../support/hand-clock.ts'
import { type MadeCertificate, makeCertificate } from '../support/made-certificate.ts'
import { signFor } from '../support/public-seller.ts'
import { startTestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'

const DAY_MS = 86_400_000
const authority = makeCertificate({ name: 'authority', isAuthority: true })
let devnet: Devnet
let home: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-public-tls-'))
  devnet = await startDevnet()
})
afterAll(async () => {
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

const issue = (options: Parameters<typeof makeCertificate>[0] = {}) => makeCertificate({ by: authority, ...options })

/** Replaces both files, each at once, as programs that renew certificates do. */
async function store(name: string, { cert, key }: Pick<MadeCertificate, 'cert' | 'key'>) {
  const files = { cert: join(home, `${name}.cert.pem`), key: join(home, `${name}.key.pem`) }
  for (const [path, text] of [
    [files.cert, cert],
    [files.key, key],
  ] as const) {
    await writeFile(`${path}.new`, text, { mode: 0o600 })
    await rename(`${path}.new`, path)
  }
  return files
}

type Asking = { body?: string; headers?: Record<string, string> }

/** One request on a connection of its own. Only certificates of our authority are believed. */
function askTls(url: string, { body, headers = {} }: Asking = {}) {
  return new Promise<{ status: number; text: string; headers: Record<string, unknown>; serial: string }>(
    (resolve, reject) => {
      const method = body === undefined ? 'GET' : 'POST'
      const asking = request(url, { method, ca: authority.cert, headers, agent: false })
      asking.on('error', reject)
      asking.on('response', async (answer) => {
        const { serialNumber } = (answer.socket as TLSSocket).getPeerCertificate()
        const chunks: Buffer[] = []
        for await (const chunk of answer) chunks.push(chunk as Buffer)
        const text = Buffer.concat(chunks).toString()
        resolve({ status: answer.statusCode!, text, headers: answer.headers, serial: serialNumber })
      })
      asking.end(body)
    },
  )
}

function listenerOn(files: { cert: string; key: string }, { logger = silentLogger, clock = new HandClock() } = {}) {
  clock.set(Date.now())
  const tls = createPublicTls(files, { clock, logger, url: undefined, everyMs: 10 })
  return createPublicListener(
    { host: '127.0.0.1', port: 0, url: undefined, drainMs: 0, tls, timing: { headMs: 300 } },
    {
      ...{ logger, meters: new Meters(), agentSale: {} as AgentSale, index: () => ({}), openApi: () => ({}) },
      doorSales: { idle: async () => {}, abort: () => {} },
      limits: new PublicLimits(publicLimits, { clock: systemClock }),
      sites: createSiteReader([]),
    },
  )
}

function listening() {
  const lines: string[] = []
  const add = (level: string) => (_: object, message: string) => void lines.push(`${level} ${message}`)
  const logger: Logger = { ...silentLogger, warn: add('warn'), error: add('error'), child: () => logger }
  return { lines, logger }
}

test('an agent is sold over https, with its address in the offer, the doctor and the metrics', async () => {
  const files = await store('whole', issue())
  await chmod(files.key, 0o644)
  const seller = await startTestNode({
    ...{ devnet, walletKey: devnet.wallets.seller.privateKey, dataDir: join(home, 'seller') },
    public: { port: 0, tls: files },
  })
  try {
    expect(seller.publicUrl).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    const definition = { name: 'echo', description: 'Says it again', price: 1_000n }
    const { id } = await seller.node.registerAgent(definition, { persist: false, run: (task) => task })
    const url = `${seller.publicUrl}/x402/${id}`
    const asked = await askTls(url, { body: '' })
    const terms = JSON.parse(Buffer.from(String(asked.headers['payment-required']), 'base64').toString())
    expect([asked.status, terms.resource.url]).toEqual([402, url])
    const headers = { 'content-type': 'text/plain', ...(await signFor(terms, devnet.wallets.buyer.privateKey)) }
    expect(await askTls(url, { body: 'hello', headers })).toMatchObject({ status: 200, text: 'hello' })
    const { checks } = await ask<Diagnosis>(seller.url, '/diagnosis')
    const found = checks.find((check) => check.id === 'public')
    expect(found).toMatchObject({ state: 'warn', text: expect.stringMatching(/is open to other users \(mode 644\)/) })
    const metrics = await (await fetch(`${seller.url}/metrics`)).text()
    expect(Number(/^stoa_public_certificate_days (.+)$/m.exec(metrics)![1])).toBeCloseTo(30, 0)
  } finally {
    await seller.stop()
  }
})

test('new files are served without a restart, and open connections stay', async () => {
  const files = await store('renewed', issue())
  const listener = listenerOn(files)
  await listener.start()
  try {
    const first = await askTls(`${listener.url}/x402`)
    const { hostname, port } = new URL(listener.url)
    const open = connect({ host: hostname, port: Number(port), ca: authority.cert })
    await store('renewed', issue())
    await until(async () => (await askTls(`${listener.url}/x402`)).serial !== first.serial)
    open.write('GET /x402 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    const chunks: Buffer[] = []
    for await (const chunk of open) chunks.push(chunk as Buffer)
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 200 /)
    expect(listener.tls()).toMatchObject({ refused: undefined, notes: [] })
  } finally {
    await listener.stop()
  }
})

test('bad new files change nothing: the pair before is served, the log says so once, and good files end it', async () => {
  const first = issue()
  const files = await store('bad', first)
  const { lines, logger } = listening()
  const listener = listenerOn(files, { logger })
  await listener.start()
  try {
    const { serial } = await askTls(`${listener.url}/x402`)
    const bad: [Pick<MadeCertificate, 'cert' | 'key'>, RegExp][] = [
      [{ cert: issue().cert, key: first.key }, /does not belong to the certificate/],
      [issue({ from: new Date(Date.now() - 2 * DAY_MS), until: new Date(Date.now() - DAY_MS) }), /expired on/],
      [{ cert: '', key: '' }, /holds no certificate/],
    ]
    for (const [pair, reason] of bad) {
      await store('bad', pair)
      await until(() => reason.test(listener.tls()!.refused ?? ''))
      expect((await askTls(`${listener.url}/x402`)).serial).toBe(serial)
    }
    await rm(files.key)
    await until(() => /there is no such file/.test(listener.tls()!.refused ?? ''))
    expect((await askTls(`${listener.url}/x402`)).serial).toBe(serial)
    await store('bad', issue())
    await until(() => listener.tls()!.refused === undefined)
    expect((await askTls(`${listener.url}/x402`)).serial).not.toBe(serial)
    const told = lines.filter((line) => line.includes('serves the certificate before'))
    // Between the two renames a pair may be seen that does not fit.
    expect(told.length).toBeGreaterThanOrEqual(bad.length + 1)
    expect(told.length).toBeLessThan(3 * bad.length + 3)
  } finally {
    await listener.stop()
  }
})

test('a certificate that runs out is told before and after, and the listener goes on', async () => {
  const files = await store('old', issue())
  const clock = new HandClock()
  const { lines, logger } = listening()
  const listener = listenerOn(files, { logger, clock })
  await listener.start()
  try {
    expect(listener.tls()!.notes).toEqual([])
    clock.advance(20 * DAY_MS)
    await until(() => lines.some((line) => /^warn the certificate expires on .*: renew it$/.test(line)))
    clock.advance(20 * DAY_MS)
    await until(() => lines.some((line) => /^warn the certificate expired on .*: clients refuse/.test(line)))
    expect(lines.filter((line) => line.includes('expire'))).toHaveLength(2)
    expect((await askTls(`${listener.url}/x402`)).status).toBe(200)
  } finally {
    await listener.stop()
  }
})

test('the node does not start with files that cannot be used', async () => {
  const files = await store('expired', issue({ until: new Date(Date.now() - 1_000) }))
  const listener = listenerOn(files)
  await expect(listener.start()).rejects.toMatchObject({ code: 'PUBLIC_TLS_UNUSABLE' })
  await listener.stop()
})

test('TLS before 1.2, plain HTTP and a handshake that never ends are cut off, and do not hold up a stop', async () => {
  const files = await store('hostile', issue())
  const listener = listenerOn(files)
  await listener.start()
  const { hostname: host, port: text } = new URL(listener.url)
  const port = Number(text)
  const old = connect({ host, port, ca: authority.cert, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL' })
  const refusal = await new Promise((resolve) => old.on('error', (error: Error) => resolve(error.message)))
  expect(refusal).toMatch(/version|protocol/i)
  const newer = connect({ host, port, ca: authority.cert, maxVersion: 'TLSv1.2' })
  await new Promise((resolve) => newer.once('secureConnect', resolve))
  expect(newer.getProtocol()).toBe('TLSv1.2')
  newer.destroy()
  const closedBy = (bytes: string) =>
    new Promise<string>((resolve) => {
      const chunks: Buffer[] = []
      const socket = connectTcp({ host, port }).on('data', (chunk: Buffer) => chunks.push(chunk))
      socket.on('error', () => {}).on('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
      socket.write(bytes)
    })
  expect(await closedBy('GET / HTTP/1.1\r\nHost: x\r\n\r\n')).not.toContain('HTTP/1.1 2')
  await closedBy('\x16')
  const waiting = closedBy('\x16')
  expect((await askTls(`${listener.url}/x402`)).status).toBe(200)
  await listener.stop()
  await waiting
})
