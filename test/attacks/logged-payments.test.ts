/** T21, hazard 7.16: a signed payment is money for whoever has it until it is settled. No log has one, also none at its lowest level. */
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { spawnStoa } from '../../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { type Fault, type FaultyFacilitator, startFaultyFacilitator } from '../support/faulty-facilitator.ts'
import { openChannelBuyer } from '../support/http-channel-buyer.ts'
import { engineEnvironment } from '../support/ledger-engine.ts'
import { startLoggedSeller } from '../support/logged-seller.ts'
import { testDir } from '../support/loopback-node.ts'
import { sendTask, signFor, termsAt } from '../support/public-seller.ts'
import type { TestNode } from '../support/test-node.ts'
import { until } from '../support/until.ts'
import { askedBy, headerOf, readHeader, startBareSeller } from '../support/web-seller.ts'

const TASK = 'a task that only its seller reads'
let devnet: Devnet
let facilitator: FaultyFacilitator
let seller: TestNode
let log = ''
const at: Record<string, string> = {}

beforeAll(async () => {
  devnet = await startDevnet()
  facilitator = await startFaultyFacilitator(devnet.facilitatorUrl)
  const write = (text: string) => {
    log += text
  }
  const options = { devnet, facilitatorUrl: facilitator.url, seller: { channels: 'auto' } } as const
  const started = await startLoggedSeller(options, write)
  seller = started.seller
  for (const [name, id] of Object.entries(started.idOf)) at[name] = `${seller.publicUrl}/x402/${id}`
})
afterAll(async () => {
  await seller?.stop()
  await facilitator?.stop()
  await devnet?.stop()
})

/** Every text that pays, in a header as a client sends it. */
function secretsIn(header: string): string[] {
  const text = Buffer.from(header, 'base64').toString('utf8')
  const signatures = [...text.matchAll(/"signature":"0x([0-9a-f]{100,})"/gi)].map(([, hex]) => hex!)
  expect(signatures.length).toBeGreaterThan(0)
  return [header, header.slice(0, 200), ...signatures]
}

function expectNone(secrets: readonly string[], text: string): void {
  for (const secret of secrets) expect(text.toLowerCase()).not.toContain(secret.toLowerCase())
}

/** What the log says of this work, up to the line that shows its end. */
async function logOf(work: () => Promise<void>, end: RegExp): Promise<string> {
  const from = log.length
  await work()
  return until(() => (end.test(log.slice(from)) ? log.slice(from) : undefined))
}

test('the log of a seller has no payment of a call that it sold, refused or could not run', async () => {
  const secrets: string[] = []
  const pay = async (url: string, status: number, change?: Parameters<typeof signFor>[2]) => {
    const payment = await signFor(await termsAt(url), devnet.wallets.buyer.privateKey, change)
    secrets.push(...secretsIn(payment['payment-signature']))
    expect((await sendTask(url, TASK, payment)).status).toBe(status)
    return payment
  }
  const told = await logOf(async () => {
    const payment = await pay(at.echo!, 200)
    expect((await sendTask(at.echo!, 'another', payment)).status).toBe(409)
    await pay(at.fails!, 502)
    await pay(at.echo!, 402, (sent) => {
      const { authorization } = sent.payload as { authorization: object }
      return { ...sent, payload: { ...sent.payload, authorization: { ...authorization, value: '2000' } } }
    })
    expect((await sendTask(at.echo!, TASK, { 'payment-signature': secrets[0]!.slice(0, -30) })).status).toBe(400)
  }, /"status":400/)
  expect(told).toContain('a paid run is done')
  expect(told).toContain('a paid run failed')
  expectNone([...secrets, TASK], told)
})

type Repeat = (signature: string, text: string) => Fault
const repeats: [string, Repeat][] = [
  ['an error page', (_, text) => ({ kind: 'status', status: 500, body: `cannot settle ${text}` })],
  ['an error', (signature, text) => ({ kind: 'status', status: 400, body: { error: signature, message: text } })],
  ['a reason', (signature) => ({ kind: 'refuse', reason: `no: ${signature}` })],
  ['a message', (signature) => ({ kind: 'refuse', reason: 'unexpected_error', message: `no: ${signature}` })],
]
test.each(repeats)('the log of a seller has no payment that its facilitator repeats in %s', async (_, fault) => {
  const payment = await signFor(await termsAt(at.echo!), devnet.wallets.buyer.privateKey)
  const header = payment['payment-signature']
  const secrets = secretsIn(header)
  const before = facilitator.settles().length
  facilitator.faults.push(fault(`0x${secrets.at(-1)}`, Buffer.from(header, 'base64').toString('utf8')))
  const told = await logOf(async () => {
    await sendTask(at.echo!, TASK, payment)
  }, /"status":\d{3}/)
  expect(facilitator.settles().length).toBeGreaterThan(before)
  expectNone([...secrets, TASK], told)
})

test('the log of a seller has no voucher and no deposit of a payment channel', async () => {
  const secrets: string[] = []
  const buyer = await openChannelBuyer(devnet, {
    funds: 1_000_000n,
    pay(request) {
      secrets.push(...secretsIn(request.headers.get('payment-signature')!))
      return fetch(request)
    },
  })
  const told = await logOf(async () => {
    for (const task of [TASK, `${TASK} too`]) expect((await buyer.buy(at.echo!, task)).status).toBe(200)
    expect((await buyer.buy(at.fails!, TASK)).status).toBe(502)
  }, /"status":502/)
  expect(told).toContain('a deposit came over HTTP')
  expect(secrets.length).toBeGreaterThanOrEqual(9)
  expectNone([...secrets, TASK], told)
})

/** `stoa buy` as its users run it, with all that it says. */
async function stoaBuy(url: string) {
  const [dir, key] = [await testDir(), generatePrivateKey()]
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  const config = `buyer:\n  private_origins: ['${new URL(url).origin}']\n`
  await writeFile(join(dir, 'config.yaml'), config, { mode: 0o600 })
  const flags = ['--data-dir', dir, '--log-level', 'debug', '--no-mdns', '--port', '0']
  const child = spawnStoa(['buy', url, '--task', TASK, '--max-price', '0.05', ...flags], {
    ...{ ETHEREUM_RPC_URL: devnet.rpcUrl, BUYER_PRIVATE_KEY: key, NODE_LISTEN_HOST: '127.0.0.1' },
    ...(await engineEnvironment(dir)),
  })
  let said = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', (chunk) => {
      said += chunk
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, said, key }
}

test('stoa buy at debug level tells no payment that it made', async () => {
  const headers: string[] = []
  const bare = await startBareSeller(({ headers: sent }, response) => {
    const header = sent['payment-signature']
    if (header === undefined) {
      const asked = askedBy(bare.origin, devnet.wallets.seller.address)
      response.writeHead(402, { 'payment-required': headerOf(asked) }).end('{}')
      return
    }
    headers.push(String(header))
    const { payload } = readHeader(header) as unknown as { payload: { authorization: { from: string } } }
    const settled = { success: true, transaction: `0x${'1'.repeat(64)}`, network: 'eip155:84532' }
    response.setHeader('payment-response', headerOf({ ...settled, payer: payload.authorization.from }))
    response.end('the result')
  })
  try {
    const { code, said, key } = await stoaBuy(bare.url)
    expect([code, said]).toEqual([0, expect.stringContaining('the result')])
    expect(said).toContain('an order is completed')
    expect(headers).toHaveLength(1)
    expectNone([...headers.flatMap(secretsIn), key.slice(2)], said)
  } finally {
    await bare.stop()
  }
})

test('stoa buy at debug level tells no payment that its seller repeats in a refusal', async () => {
  const headers: string[] = []
  const bare = await startBareSeller(({ headers: sent }, response) => {
    const header = sent['payment-signature']
    const asked = askedBy(bare.origin, devnet.wallets.seller.address)
    if (header === undefined) {
      response.writeHead(402, { 'payment-required': headerOf(asked) }).end('{}')
      return
    }
    headers.push(String(header))
    const text = Buffer.from(String(header), 'base64').toString('utf8')
    const error = `bad signature 0x${secretsIn(String(header)).at(-1)} in ${header}`
    const settled = { success: false, errorReason: error, transaction: '', network: 'eip155:84532' }
    const told = { 'payment-required': headerOf({ ...asked, error }), 'payment-response': headerOf(settled) }
    response.writeHead(402, { ...told, 'content-type': 'application/json' })
    response.end(JSON.stringify({ error, text }))
  })
  try {
    const { code, said } = await stoaBuy(bare.url)
    expect(said).toContain('an order failed')
    expect(code).not.toBe(0)
    expect(headers.length).toBeGreaterThan(0)
    expectNone(headers.flatMap(secretsIn), said)
  } finally {
    await bare.stop()
  }
})
