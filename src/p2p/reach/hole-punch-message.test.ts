import { multiaddr } from '@multiformats/multiaddr'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeHolePunch, encodeHolePunch } from './hole-punch-message.ts'

const addresses = [multiaddr('/ip4/9.9.9.9/tcp/4001'), multiaddr('/ip6/2606:4700::1/tcp/4001')]
const text = ({ type, addresses: places }: ReturnType<typeof decodeHolePunch>) => ({ type, places: places.map(String) })

test('a message is read as it was written, in the bytes of the specification', () => {
  expect(text(decodeHolePunch(encodeHolePunch({ type: 'connect', addresses })))).toEqual({
    type: 'connect',
    places: addresses.map(String),
  })
  // DCUtR: type = 1 (CONNECT 100, SYNC 300), ObsAddrs = 2.
  expect([...encodeHolePunch({ type: 'sync', addresses: [] })]).toEqual([0x08, 0xac, 0x02])
  const one = encodeHolePunch({ type: 'connect', addresses: [addresses[0]!] })
  expect(Buffer.from(one).toString('hex')).toBe('086412080409090909060fa1')
})

test('T8: any bytes give a message or an error, an address that cannot be read is left out', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        expect(['connect', 'sync']).toContain(decodeHolePunch(bytes).type)
      } catch (error) {
        expect(error).toBeInstanceOf(Error)
      }
    }),
  )
  expect(decodeHolePunch(Uint8Array.from([0x08, 100, 0x12, 2, 0xff, 0xff]))).toEqual({ type: 'connect', addresses: [] })
  expect(() => decodeHolePunch(Uint8Array.from([0x08, 100, 0x12, 0xff, 0xff, 0xff, 0x7f]))).toThrow('ends early')
})
