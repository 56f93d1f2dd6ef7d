import { multiaddr } from '@multiformats/multiaddr'
import { expect, test } from 'vitest'
import { decodeDialAnswer, decodeNonce, encodeDialData, encodeDialRequest } from './dial-back-message.ts'

const hex = (text: string) => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'))

test('a request names one address and a nonce of eight bytes, the least first', () => {
  const address = multiaddr('/ip4/9.9.9.9/tcp/4001')
  expect(Buffer.from(encodeDialRequest(address, 0x0102n)).toString('hex')).toBe(
    '0a130a080409090909060fa1110201000000000000',
  )
})

test('the bytes that are asked for first are sent in one field', () => {
  expect(encodeDialData(4096).length).toBe(4096 + 6)
})

test('of an answer it is read whether the other side dialed, and how many bytes it wants before', () => {
  // status OK, address 0, dial OK
  expect(decodeDialAnswer(hex('12 08 08c801 1000 18c801'))).toEqual({ type: 'result', tried: true })
  // status OK, dial error
  expect(decodeDialAnswer(hex('12 05 08c801 1864'))).toEqual({ type: 'result', tried: true })
  // refused
  expect(decodeDialAnswer(hex('12 02 0865'))).toEqual({ type: 'result', tried: false })
  expect(decodeDialAnswer(hex('1a 04 10b8ea01'))).toEqual({ type: 'data', bytes: 30_008 })
  expect(decodeNonce(hex('09 0201000000000000'))).toBe(0x0102n)
})

test.each(['', '12', '12 7f', '0b', '08', '09 01', 'ffffffffffffffffffffff'])('"%s" is no answer', (text) => {
  expect(() => decodeDialAnswer(hex(text))).toThrow()
  expect(() => decodeNonce(hex(text))).toThrow()
})
