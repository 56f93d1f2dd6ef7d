/** What routers are known to answer, from one on loopback. A real daemon is asked in test/nat/upnp.test.ts. */
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { multiaddr } from '@multiformats/multiaddr'
import { afterEach, expect, test } from 'vitest'
import { silentLogger } from '../../src/lib/logger.ts'
import { PortMapping, type PublicPort } from '../../src/p2p/upnp/port-mapping.ts'
import { until } from '../support/until.ts'

const SERVICE = 'urn:schemas-upnp-org:service:WANPPPConnection:1'
const PUBLIC = '9.9.9.9'
const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

type Asked = { action: string } & Record<string, string>
/** What it does: values of an answer, or the number of an error. */
type Answering = (asked: Asked) => Record<string, string> | number

/** A router of the first version that dials in, and keeps what it is asked. */
async function startRouter({
  answering = (({ action }) => (action === 'GetExternalIPAddress' ? ip(PUBLIC) : usual(action))) as Answering,
  description = (control: string) => control,
} = {}) {
  const asked: Asked[] = []
  const server: Server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      if (request.method === 'GET') {
        response.end(describes(description('/control?x=1&amp;y=2')))
        return
      }
      const action = /#(\w+)"/.exec(String(request.headers.soapaction))?.[1] ?? ''
      const values = [...body.matchAll(/<(New\w+)>([^<]*)</g)].map(([, name, value]) => [name, value])
      const one: Asked = { action, ...Object.fromEntries(values) }
      asked.push(one)
      answer(response, action, answering(one))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const stop = async () => {
    server.close()
    server.closeAllConnections()
  }
  cleanups.push(stop)
  const { port } = server.address() as AddressInfo
  return { asked, stop, url: new URL(`http://127.0.0.1:${port}/desc.xml`) }
}

const ip = (address: string) => ({ NewExternalIPAddress: address })
const usual = (action: string) => (action === 'GetSpecificPortMappingEntry' ? 714 : {})
const describes = (control: string) =>
  `<?xml version="1.0"?><root><device><serviceList><service><serviceType>urn:other:1</serviceType></service>
   <service><serviceType>${SERVICE}</serviceType><controlURL>${control}</controlURL></service></serviceList></device></root>`

function answer(response: ServerResponse, action: string, said: Record<string, string> | number): void {
  const wrap = (inner: string) => `<s:Envelope><s:Body>${inner}</s:Body></s:Envelope>`
  if (typeof said === 'number') {
    response.statusCode = 500
    response.end(wrap(`<s:Fault><detail><UPnPError><errorCode>${said}</errorCode></UPnPError></detail></s:Fault>`))
    return
  }
  const values = Object.entries(said).map(([name, value]) => `<${name}>${value}</${name}>`)
  response.end(wrap(`<u:${action}Response xmlns:u="${SERVICE}">${values.join('')}</u:${action}Response>`))
}

/** A node that listens on 127.0.0.1:4001 and asks the routers. `stop` waits until it has given everything back. */
function startMapping(routers: URL[], everyMs = 60_000, routerMs = 20_000, own = (_router: URL) => true) {
  const told: PublicPort[][] = []
  const stopping = new AbortController()
  const mapping = new PortMapping(
    { mapLookMs: 5, mapEveryMs: everyMs, mapRetryMs: everyMs, mapRouterMs: routerMs },
    {
      logger: silentLogger,
      listening: () => [multiaddr('/ip4/127.0.0.1/tcp/4001'), multiaddr('/ip4/192.168.1.7/tcp/4001')],
      mapped: (ports) => told.push([...ports]),
      search: async () => routers,
      sendsThrough: async (router) => own(router),
    },
  )
  const running = mapping.run(stopping.signal)
  const stop = async () => {
    stopping.abort()
    await running
  }
  cleanups.push(stop)
  return {
    mapping,
    told,
    stop,
    settled: () => until(() => (mapping.state().state === 'asking' ? undefined : mapping.state())),
  }
}

const only = (asked: readonly Asked[], action: string) => asked.filter((one) => one.action === action)
const open = (externalHost: string, externalPort: number): PublicPort => ({
  ...{ protocol: 'tcp', host: '127.0.0.1', port: 4001 },
  ...{ externalHost, externalPort },
})

test('T20: the port is opened for an hour, renewed with the address the router then has, and given back', async () => {
  let address = PUBLIC
  const router = await startRouter({
    answering: ({ action }) => (action === 'GetExternalIPAddress' ? ip(address) : usual(action)),
  })
  const { told, stop, settled } = startMapping([router.url], 20)
  expect(await settled()).toMatchObject({ state: 'mapped', says: expect.stringContaining(`TCP 4001 of ${PUBLIC}`) })
  const [first] = only(router.asked, 'AddPortMapping')
  expect(first).toMatchObject({ NewInternalClient: '127.0.0.1', NewProtocol: 'TCP', NewLeaseDuration: '3600' })
  address = '8.8.4.4'
  await until(() => told.length === 2)
  expect(told).toEqual([[open(PUBLIC, 4001)], [open('8.8.4.4', 4001)]])
  await stop()
  expect(router.asked.at(-1)).toMatchObject({
    action: 'DeletePortMapping',
    NewExternalPort: '4001',
    NewProtocol: 'TCP',
  })
})

test('T20: a router that knows no leases is asked without, and one that gives only other ports for those', async () => {
  const answering: Answering = ({ action, NewExternalPort, NewLeaseDuration }) => {
    if (action !== 'AddPortMapping') return action === 'GetExternalIPAddress' ? ip(PUBLIC) : usual(action)
    if (NewExternalPort !== '4003') return 718
    return NewLeaseDuration === '0' ? {} : 725
  }
  const router = await startRouter({ answering })
  const { told, settled } = startMapping([router.url])
  expect((await settled()).state).toBe('mapped')
  expect(told).toEqual([[open(PUBLIC, 4003)]])
})

test('T20: a router that takes the port it gave for a conflict keeps passing that on', async () => {
  const answering: Answering = ({ action, NewExternalPort }) => {
    if (action === 'GetExternalIPAddress') return ip(PUBLIC)
    const isOurs = NewExternalPort === '4001'
    if (action === 'AddPortMapping') return isOurs ? 718 : {}
    return isOurs ? { NewInternalClient: '127.0.0.1', NewInternalPort: '4001' } : 714
  }
  const router = await startRouter({ answering })
  const { told, settled } = startMapping([router.url])
  expect((await settled()).state).toBe('mapped')
  expect(told).toEqual([[open(PUBLIC, 4001)]])
})

test('T20: a router that was started anew, and listens elsewhere, is found and told again', async () => {
  const routers = [await startRouter(), await startRouter()]
  const urls = [routers[0]!.url]
  const { mapping, settled } = startMapping(urls, 20)
  await settled()
  urls[0] = routers[1]!.url
  await routers[0]!.stop()
  await until(() => only(routers[1]!.asked, 'AddPortMapping').length > 0)
  await until(() => mapping.state().state === 'mapped')
})

test('T20: a port is taken from nobody, not even from another program of this machine', async () => {
  const answering: Answering = ({ action, NewExternalPort }) => {
    if (action === 'GetExternalIPAddress') return ip(PUBLIC)
    if (action !== 'GetSpecificPortMappingEntry') return {}
    return NewExternalPort === '4001' ? { NewInternalClient: '127.0.0.1', NewInternalPort: '8080' } : 714
  }
  const router = await startRouter({ answering })
  const { told, settled } = startMapping([router.url])
  await settled()
  expect(told).toEqual([[open(PUBLIC, 4002)]])
  expect(only(router.asked, 'AddPortMapping')).toMatchObject([{ NewExternalPort: '4002' }])
})

test.each([
  ['10.7.7.7', 'is a private one'],
  ['100.64.1.1', 'is a private one'],
  ['0.0.0.0', 'no public address'],
  ['</x>', 'no public address'],
])('T20: an external address of %s is announced to nobody', async (address, says) => {
  const router = await startRouter({
    answering: ({ action }) => (action === 'GetExternalIPAddress' ? ip(address) : usual(action)),
  })
  const { told, settled } = startMapping([router.url])
  expect(await settled()).toMatchObject({ state: 'failed', says: expect.stringContaining(says) })
  expect(told.flat()).toEqual([])
})

test('T20: a router that refuses is said to, and the next one is asked', async () => {
  const refusing = await startRouter({ answering: ({ action }) => (action === 'AddPortMapping' ? 606 : ip(PUBLIC)) })
  expect(await startMapping([refusing.url]).settled()).toMatchObject({
    state: 'failed',
    says: expect.stringContaining('606'),
  })
  const willing = await startRouter()
  expect((await startMapping([refusing.url, willing.url]).settled()).state).toBe('mapped')
})

test('T3: a description cannot have this node send orders to another machine, nor fill its memory', async () => {
  const victim = await startRouter()
  const elsewhere = victim.url.href.replace('127.0.0.1', 'localhost')
  const redirecting = await startRouter({ description: () => elsewhere })
  expect((await startMapping([redirecting.url]).settled()).state).toBe('failed')
  expect(victim.asked).toEqual([])
  const endless = await startRouter({ description: (control) => `${control}${' '.repeat(70_000)}` })
  expect((await startMapping([endless.url]).settled()).says).toContain('the answer of the router is too long')
})

test('T7: a router that goes over to another protocol instead of answering keeps neither the search nor the stop', async () => {
  const server = createServer().on('upgrade', () => {})
  server.on('connection', (socket) => {
    socket.on('error', () => {}).write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanups.push(
    () => server.closeAllConnections(),
    () => server.close(),
  )
  const { settled, stop } = startMapping([new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)])
  expect(await settled()).toMatchObject({ state: 'failed', says: expect.stringContaining('ended its answer early') })
  await stop()
})

test('T7: one that takes its time over every order does not keep this node from the next', async () => {
  let orders = 0
  const slow = createServer((request, response) => {
    if (request.method === 'GET') response.end(describes('/control'))
    else setTimeout(() => answer(response, '', orders++ === 0 ? ip(PUBLIC) : 718), 300).unref()
  })
  slow.listen(0, '127.0.0.1')
  await once(slow, 'listening')
  cleanups.push(() => slow.close())
  const router = await startRouter()
  const url = new URL(`http://127.0.0.1:${(slow.address() as AddressInfo).port}/`)
  expect((await startMapping([url, router.url], 60_000, 1000).settled()).state).toBe('mapped')
  // One for each of eight ports, and one before it, else.
  expect(orders).toBeLessThan(6)
})

test('T3: one that only says to be a router is left for the one this machine sends through, as soon as that is there', async () => {
  const [pretender, router] = [await startRouter(), await startRouter()]
  const found = [pretender.url]
  const { mapping, settled } = startMapping(found, 20, 20_000, ({ port }) => port === router.url.port)
  await settled()
  found.length = 0
  const asked = () => only(pretender.asked, 'AddPortMapping').length
  const before = asked()
  await until(() => asked() > before + 1)
  expect(mapping.state().state).toBe('mapped')
  found.push(router.url, pretender.url)
  await until(() => only(router.asked, 'AddPortMapping').length > 1)
  const last = asked()
  await until(() => only(router.asked, 'AddPortMapping').length > 4)
  expect(asked()).toBe(last)
})
