/** D43: bootstrap peers and relays that are given by a name alone, `/dnsaddr/<name>`. */
import { createSocket } from 'node:dgram'
import dns from 'node:dns/promises'
import { afterEach, expect, test } from 'vitest'
import { type Logger, silentLogger } from '../../src/lib/logger.ts'
import type { Host } from '../../src/p2p/host.ts'
import { createIdentity } from '../../src/p2p/identity.ts'
import { systemDns } from '../../src/p2p/named-peers.ts'
import { startTestHost, type TestHostOptions, whereIs } from '../support/test-host.ts'
import { until } from '../support/until.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()))
})

async function start(options: TestHostOptions = {}): Promise<Host> {
  const host = await startTestHost(options)
  cleanups.push(() => host.stop())
  return host
}

/** A name server with TXT records that a test writes. */
class NameServer {
  readonly records = new Map<string, string[]>()
  async query(domain: string) {
    const texts = this.records.get(domain)
    if (texts === undefined) throw new Error(`${domain}: no such name`)
    // A record of every kind that strangers have: quoted, no address, another purpose.
    const others = ['"v=spf1 -all"', 'dnsaddr=', 'dnsaddr=nonsense', 'dnsaddr=/ip4/127.0.0.1/tcp/1']
    return { Answer: [...others, ...texts].map((data) => ({ name: domain, type: 16, TTL: 0, data })) }
  }
}

const recordsOf = (host: Host) => whereIs(host, 'tcp').addrs.map((address) => `dnsaddr=${address}`)
const meets = (host: Host, ...others: Host[]) =>
  until(() => others.every(({ peerId }) => host.peers().some((peer) => peer.peerId === peerId)))
/** Nobody is found but by the names. */
const timing = { askNamesEveryMs: 20, rejoinEveryMs: 3_600_000, meetEveryMs: 3_600_000 }

test('D43: a name leads to all of its peers, also by other names, and to those that it names later', async () => {
  const [first, second, third] = [await start(), await start(), await start()]
  const dns = new NameServer()
  dns.records.set('_dnsaddr.boot.example', [...recordsOf(first), 'dnsaddr=/dnsaddr/eu.boot.example'])
  dns.records.set('_dnsaddr.eu.boot.example', recordsOf(second))
  const node = await start({ bootstrap: ['/dnsaddr/boot.example'], dns, timing })
  await meets(node, first, second)
  expect(node.search()).toMatchObject({ tried: ['1 bootstrap peer', 'the peers of earlier runs'] })

  dns.records.set('_dnsaddr.boot.example', [...recordsOf(first), ...recordsOf(third)])
  await meets(node, third)
})

test('D43: a peer of a name is met again where the name leads by then', async () => {
  const first = await start()
  const identity = await createIdentity()
  const old = await start({ identity })
  const dns = new NameServer()
  dns.records.set('_dnsaddr.boot.example', recordsOf(old))
  const node = await start({ bootstrap: ['/dnsaddr/boot.example'], dns, timing })
  await meets(node, old)
  await old.stop()
  const moved = await start({ identity })
  dns.records.set('_dnsaddr.boot.example', [...recordsOf(first), ...recordsOf(moved)])
  await meets(node, moved, first)
})

test('T20: a name that leads nowhere is told, and asked again', async () => {
  const warnings: object[] = []
  const logger: Logger = {
    ...silentLogger,
    warn: (fields) => void warnings.push(fields as object),
    child: () => logger,
  }
  const dns = new NameServer()
  const node = await start({ bootstrap: ['/dnsaddr/boot.example'], dns, timing, logger })
  await until(() => warnings.some((fields) => 'address' in fields && fields.address === 'boot.example'))
  expect(node.search()).toMatchObject({
    met: 0,
    fix: expect.stringContaining('check that the bootstrap address is right'),
  })
  const late = await start()
  dns.records.set('_dnsaddr.boot.example', recordsOf(late))
  await meets(node, late)
})

test('T7: a name with a thousand peers, and names without end, are asked within limits', async () => {
  let asked = 0
  const dns = {
    query: async (domain: string) => {
      asked++
      const names = Array.from({ length: 1000 }, (_, n) => `dnsaddr=/dnsaddr/${n}.${domain.slice('_dnsaddr.'.length)}`)
      return { Answer: names.map((data) => ({ name: domain, type: 16, TTL: 0, data })) }
    },
  }
  const node = await start({
    bootstrap: ['/dnsaddr/endless.example'],
    dns,
    timing: { ...timing, askNamesEveryMs: 3_600_000, retry: { firstMs: 3_600_000, mostMs: 3_600_000 } },
  })
  await until(() => asked >= 8)
  expect(node.peers()).toEqual([])
  expect(asked).toBe(8)
})

test('D43: relays are taken by a name as well', async () => {
  const relay = await start({ relay: true })
  const dns = new NameServer()
  dns.records.set('_dnsaddr.relays.example', recordsOf(relay))
  const node = await start({ relays: ['/dnsaddr/relays.example'], dns, timing: { ...timing, relayAfterMs: 0 } })
  await until(() => node.addresses().some((address) => address.includes(`/p2p/${relay.peerId}/p2p-circuit`)))
})

/** Answers TXT questions over UDP with one record. */
async function nameServer(text: string): Promise<string> {
  const socket = createSocket('udp4')
  socket.on('message', (question, { port, address }) => {
    const record = Buffer.from(text)
    // Header with one question and one answer; the question; a pointer to its name, TXT, IN, no life, one text.
    const header = Buffer.from([...question.subarray(0, 2), 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0])
    const end = question.indexOf(0, 12) + 5
    const answer = Buffer.from([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, 0, record.length + 1, record.length])
    socket.send(Buffer.concat([header, question.subarray(12, end), answer, record]), port, address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  cleanups.push(() => socket.close())
  return `127.0.0.1:${socket.address().port}`
}

test('D43: the name servers of the machine are asked for TXT records', async () => {
  const servers = dns.getServers()
  cleanups.push(() => dns.setServers(servers))
  dns.setServers([await nameServer('dnsaddr=/ip4/127.0.0.1/tcp/4001')])
  expect(await systemDns.query('_dnsaddr.boot.example')).toEqual({
    Answer: [{ data: 'dnsaddr=/ip4/127.0.0.1/tcp/4001' }],
  })
})
