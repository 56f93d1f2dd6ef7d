import { expect, test } from 'vitest'
import { defaultFirst, defaultRoutersIn, locationOf } from './ssdp.ts'

const answer = (location: string, st = 'urn:schemas-upnp-org:device:InternetGatewayDevice:1', status = '200 OK') =>
  Buffer.from(`HTTP/1.1 ${status}\r\nCACHE-CONTROL: max-age=120\r\nSt: ${st}\r\nLocation: ${location}\r\n\r\n`)
const from = { address: '192.168.1.1' }

test('the routers this machine sends through are read from its routes', () => {
  const routes = 'Iface\tDestination\tGateway\tFlags\neth0\t00000000\t010200C0\t0003\neth0\t000200C0\t00000000\t0001\n'
  expect(defaultRoutersIn(routes)).toEqual(['192.0.2.1'])
  expect(defaultRoutersIn('')).toEqual([])
})

test('a router says where it describes itself', () => {
  expect(locationOf(answer('http://192.168.1.1:5000/rootDesc.xml'), from)?.href).toBe(
    'http://192.168.1.1:5000/rootDesc.xml',
  )
})

test('T3: whoever only says to be a router comes after the one this machine sends through', () => {
  const [pretender, router] = [new URL('http://192.168.1.66/'), new URL('http://192.168.1.1/')]
  expect(defaultFirst([pretender, router], ['192.168.1.1'])).toEqual([router, pretender])
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
