/** T40: peers that want a node to ask addresses for them: as a proxy, as a scanner, or to flood somebody. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Glance, GlanceOptions } from '../../src/lib/glance.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { judge } from '../../src/node/outside-looks.ts'
import type { Host } from '../../src/p2p/host.ts'
import { askForLook, createDoorLooks } from '../../src/protocols/doors/door-looks.ts'
import { DOOR_LOOK_PROTOCOL } from '../../src/schema/door-look.ts'
import { HandClock } from '../support/hand-clock.ts'
import { startTestHost } from '../support/test-host.ts'

const AGENT = 'a'.repeat(32)
const FREE = 'b'.repeat(32)
const asset = '0x036CbD53842c5426634e7929541eC2318f3dCF7e' as const
const payTo = '0x1111111111111111111111111111111111111111' as const
const terms = { amount: 20_000n, network: 'eip155:84532', asset, payTo }
const clock = new HandClock()
let [looker, peer]: Host[] = []
let seen: Glance
let looked: { url: URL; options: GlanceOptions }[] = []
const end: (() => Promise<void>)[] = []

beforeAll(async () => {
  ;[looker, peer] = await Promise.all([startTestHost(), startTestHost()])
  const service = createDoorLooks({
    ...{ clock, logger: silentLogger, siteOf: (id) => looker!.siteOf(id) },
    handle: (...args) => looker!.handle(...args),
    listedTerms: (agentId, sellerId) =>
      sellerId !== peer!.peerId
        ? undefined
        : agentId === AGENT
          ? terms
          : agentId === FREE
            ? { ...terms, amount: 0n }
            : undefined,
    async look(url, options) {
      looked.push({ url, options })
      return seen
    },
  })
  await service.start()
  end.push(() => service.stop())
})
beforeEach(() => {
  looked = []
  // Every limit is full again.
  clock.advance(60 * 60 * 1000)
  seen = answer(402, 'https://seller.example/x402/')
})
afterAll(async () => {
  for (const stop of end) await stop()
  await Promise.all([looker?.stop(), peer?.stop()])
})

function answer(status: number, base: string, amount = '20000'): Glance {
  const accepts = [{ scheme: 'exact', ...terms, amount, maxTimeoutSeconds: 60 }]
  const required = { x402Version: 2, resource: { url: base + AGENT }, accepts }
  const header = Buffer.from(JSON.stringify(required)).toString('base64')
  return { kind: 'answered', status, headers: { 'payment-required': header }, body: '', certificateEndsAt: undefined }
}

async function look(url: string, agentId = AGENT): Promise<string> {
  const signal = AbortSignal.timeout(60_000)
  const stream = await peer!.openStream(
    { peerId: looker!.peerId, addrs: looker!.addresses() },
    DOOR_LOOK_PROTOCOL,
    signal,
  )
  return askForLook(stream, { agent_id: agentId, url }, signal)
}
const good = `https://seller.example/x402/${AGENT}`

test('the address of an agent that the peer has listed is asked, without a body, and one word is answered', async () => {
  expect(await look(good)).toBe('ok')
  expect(looked.map(({ url }) => url.href)).toEqual([good])
  expect(looked[0]!.options).toMatchObject({ method: 'POST', bodyBytesMax: 0 })
  expect(looked[0]!.options.body).toBeUndefined()
})

test.each([
  [{ kind: 'unreachable', reason: 'secret text' }, 'unreachable'],
  [{ kind: 'tls', reason: 'secret text' }, 'tls'],
  [answer(200, 'https://seller.example/x402/'), 'other_answer'],
  [answer(301, 'https://seller.example/x402/'), 'other_answer'],
  [answer(402, 'https://other.example/x402/'), 'other_terms'],
  [answer(402, 'https://seller.example/x402/', '90000'), 'other_terms'],
] as [Glance, string][])('%o is told as %s and nothing more', async (what, code) => {
  seen = what
  expect(await look(good)).toBe(code)
})

test.each([
  `http://seller.example/x402/${AGENT}`,
  `https://seller.example/admin`,
  `https://seller.example/x402/${AGENT}/../../admin`,
  `https://seller.example/x402/${AGENT}?x=1`,
  `https://seller.example/x402/${AGENT}#x`,
  `https://user:pass@seller.example/x402/${AGENT}`,
  `https://seller.example:22/x402/${AGENT}`,
  `https://SELLER.example/x402/${AGENT}`,
  `https://127.0.0.1/x402/${AGENT}`,
  `https://2130706433/x402/${AGENT}`,
  `https://0x7f.1/x402/${AGENT}`,
  `https://10.0.0.1/x402/${AGENT}`,
  `https://169.254.169.254/x402/${AGENT}`,
  `https://[::1]/x402/${AGENT}`,
  `https://[::ffff:7f00:1]/x402/${AGENT}`,
  `https://[64:ff9b::7f00:1]/x402/${AGENT}`,
  `https://8.8.8.8:8443/x402/${AGENT}`,
  `file:///x402/${AGENT}`,
  'nonsense',
])('%s is not asked', async (url) => {
  expect(await look(url)).toBe('refused')
  expect(looked).toEqual([])
})

test('an agent that this peer has not listed, or that is free, is not asked', async () => {
  for (const id of ['c'.repeat(32), FREE, 'x'])
    expect(await look(`https://seller.example/x402/${id}`, id)).toBe('refused')
  expect(await look(good, FREE)).toBe('refused')
  expect(looked).toEqual([])
})

test('a name that leads to an address of this network is as good as unknown, also if it changes between two looks', async () => {
  expect(await look(good)).toBe('ok')
  const { lookup } = looked[0]!.options
  const found = (name: string) =>
    new Promise<string>((resolve) =>
      lookup!(name, { all: true }, (error) => resolve(error === null ? 'found' : 'refused')),
    )
  // The connection resolves the name by this function alone.
  expect(await found('localhost')).toBe('refused')
})

test('one peer gets four looks at once and one a minute, and other names do not help it', async () => {
  const codes: string[] = []
  for (let no = 0; no < 6; no++) codes.push(await look(`https://s${no}.example/x402/${AGENT}`))
  expect(codes.filter((code) => code !== 'busy')).toHaveLength(4)
  expect(looked).toHaveLength(4)
  clock.advance(60_000)
  expect(await look(good)).toBe('ok')
  expect(await look(good)).toBe('busy')
})

test('a question of too many bytes is not asked, and the next one is', async () => {
  const signal = AbortSignal.timeout(60_000)
  const open = () =>
    peer!.openStream({ peerId: looker!.peerId, addrs: looker!.addresses() }, DOOR_LOOK_PROTOCOL, signal)
  const said = askForLook(await open(), { agent_id: AGENT, url: 'x'.repeat(100_000) }, signal).catch(() => 'cut off')
  expect(['refused', 'cut off']).toContain(await said)
  expect(looked).toEqual([])
  expect(await look(good)).toBe('ok')
})

test('one peer that lies is outvoted, and what nobody could see is no failure', () => {
  expect(judge(['ok', 'ok']).state).toBe('ok')
  expect(judge(['ok', 'unreachable', 'ok'])).toMatchObject({ state: 'warn', text: '1 of 3 peers cannot reach it' })
  expect(judge(['tls', 'tls']).state).toBe('fail')
  for (const codes of [[undefined], ['busy'], ['refused'], []] as const) expect(judge(codes).state).toBe('skip')
})
