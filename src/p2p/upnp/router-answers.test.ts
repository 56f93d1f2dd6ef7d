import { describe, expect, test } from 'vitest'
import { defaultRouters } from './default-routers.ts'
import { RouterAnswers } from './router-answers.ts'

const answer = (location: string, st = 'urn:schemas-upnp-org:device:InternetGatewayDevice:1', status = '200 OK') =>
  Buffer.from(`HTTP/1.1 ${status}\r\nCACHE-CONTROL: max-age=120\r\nSt: ${st}\r\nLocation: ${location}\r\n\r\n`)
const from = { address: '192.168.1.1' }
const networks = [{ address: '192.168.1.7', cidr: '192.168.1.7/24' }]

/** Where the router describes itself that this machine sends through. */
function locationOf(message: Buffer, router: { address: string }): URL | undefined {
  const answers = new RouterAnswers([router.address], networks)
  answers.take(message, router)
  return answers.found()[0]
}

test('the routers this machine sends through are read from its routes', async () => {
  const routes = 'Iface\tDestination\tGateway\tFlags\neth0\t00000000\t010200C0\t0003\neth0\t000200C0\t00000000\t0001\n'
  expect(await defaultRouters(routes)).toEqual(['192.0.2.1'])
  expect(await defaultRouters('')).toEqual([])
})

test('a router says where it describes itself', () => {
  expect(locationOf(answer('http://192.168.1.1:5000/rootDesc.xml'), from)?.href).toBe(
    'http://192.168.1.1:5000/rootDesc.xml',
  )
})

describe('T3: of those who say to be a router', () => {
  const told = (routers: string[], ...from: [address: string, times?: number][]) => {
    const answers = new RouterAnswers(routers, networks)
    for (const [address, times = 1] of from) {
      for (let n = 0; n < times; n++) answers.take(answer(`http://${address}/${n}`), { address })
    }
    return answers
  }
  const hosts = (answers: RouterAnswers) => answers.found().map(({ hostname }) => hostname)

  test('the router this machine sends through comes first and is waited for, however many answer sooner', () => {
    const pretenders = Array.from({ length: 20 }, (_, n): [string] => [`192.168.1.${100 + n}`])
    const early = told(['192.168.1.1'], ...pretenders)
    expect([early.ofRouter.aborted, early.suffice]).toEqual([false, false])
    const answers = told(['192.168.1.1'], ...pretenders, ['192.168.1.1'])
    expect(answers.ofRouter.aborted).toBe(true)
    expect(hosts(answers)[0]).toBe('192.168.1.1')
    expect(hosts(answers)).toHaveLength(9)
  })

  test('each is heard twice, and the first counts if no router is known', () => {
    const answers = told([], ['192.168.1.66', 20], ['192.168.1.1'])
    expect(hosts(answers)).toEqual(['192.168.1.66', '192.168.1.66', '192.168.1.1'])
    expect(answers.suffice).toBe(true)
  })

  test('an answer from a distant host or from this machine is forged', () => {
    expect(hosts(told([], ['203.0.113.5'], ['192.168.2.1'], ['127.0.0.1'], ['192.168.1.7']))).toEqual([])
  })
})

test('T3: an answer cannot send this node to another machine, or to what is no router', () => {
  for (const location of [
    'http://192.168.1.2:5000/rootDesc.xml',
    'http://169.254.169.254/latest/meta-data',
    'http://192.168.1.1@127.0.0.1/',
    'https://192.168.1.1/',
    'file:///etc/passwd',
    '',
  ]) {
    expect(locationOf(answer(location), from), location).toBeUndefined()
  }
  const own = 'http://192.168.1.1:5000/'
  expect(locationOf(answer(own, 'urn:schemas-upnp-org:device:MediaServer:1'), from)).toBeUndefined()
  expect(locationOf(answer(own, undefined, '404 Not Found'), from)).toBeUndefined()
  expect(locationOf(Buffer.alloc(2000, 'H'), from)).toBeUndefined()
})
