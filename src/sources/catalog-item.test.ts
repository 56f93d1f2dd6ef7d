import { expect, test } from 'vitest'
import { assets } from '../payments/assets.ts'
import { readItem, resourceUrl } from './catalog-item.ts'
import { shownTerms } from './payable.ts'

const own = assets['eip155:84532']
const payTo = '0x1111111111111111111111111111111111111111'
const accept = {
  ...{ scheme: 'exact', network: own.network, asset: own.address, payTo, amount: '10000' },
  ...{ maxTimeoutSeconds: 60, extra: { name: 'USDC', version: '2' } },
}
const item = {
  ...{ resource: 'https://weather.example/now', type: 'http', x402Version: 2, accepts: [accept] },
  ...{ lastUpdated: '2026-11-20T10:00:00.000Z', description: 'Weather of today', serviceName: 'Weather' },
  extensions: { bazaar: { info: { input: { type: 'http', method: 'POST', bodyType: 'json', body: {} } } } },
  quality: { l30DaysTotalCalls: 900, l30DaysUniquePayers: 12, lastCalledAt: '2026-11-20T10:00:00Z' },
}
const read = (changes: object) => readItem({ ...item, ...changes }, own, false)
const reasonOf = (accepts: unknown) => {
  const { listed } = read({ accepts })!
  return listed.kind === 'other' ? listed.reason : 'payable'
}

test('an item of v2 is read: its request, its price, its time and what the catalog claims', () => {
  const entry = read({})!
  expect(entry).toMatchObject({
    ...{ type: 'http', method: 'POST', url: 'https://weather.example/now', name: 'Weather', payers: 12, calls: 900 },
    ...{ lastUpdated: Date.parse('2026-11-20T10:00:00.000Z'), listed: { kind: 'payable' } },
  })
  expect(shownTerms(entry.listed.terms!)).toEqual({
    ...{ price: '0.01', price_atomic: '10000', asset: own.address, network: own.network, pay_to: payTo },
  })
  expect(entry.id).toMatch(/^url_[0-9a-f]{40}$/)
})

test('an item of v1 has the names of v1, and its request beside the price', () => {
  const { amount: _, ...rest } = accept
  const outputSchema = { input: { type: 'http', method: 'post' } }
  const old = { ...rest, network: 'base-sepolia', maxAmountRequired: '2500', description: 'Old', outputSchema }
  const entry = read({ x402Version: 1, accepts: [old], extensions: undefined, description: undefined })!
  expect(entry).toMatchObject({
    method: 'POST',
    description: 'Old',
    listed: { kind: 'payable', terms: { amount: 2500n } },
  })
})

test.each([
  ['text', '2026-11-20T10:00:00Z', Date.parse('2026-11-20T10:00:00Z')],
  ['milliseconds', 1_790_000_000_000, 1_790_000_000_000],
  ['seconds', 1_790_000_000, 1_790_000_000_000],
  ['nonsense', 'yesterday', undefined],
  ['a number beyond all times', 1e300, undefined],
  ['a negative number', -5, undefined],
])('the time of an item is read from %s', (_, lastUpdated, expected) => {
  expect(read({ lastUpdated })!.lastUpdated).toBe(expected)
})

test.each(['1.5', '-1', '1e99', '0x10', '01', ' 5', '5 ', '', '9'.repeat(31), 10_000, 1.5, -1, null, {}, true])(
  'the amount %j is no price',
  (amount) => {
    expect(reasonOf([{ ...accept, amount }])).toBe('it has no price that can be read')
  },
)

test('what this node cannot pay has a reason', () => {
  expect(reasonOf([{ ...accept, network: 'eip155:8453' }])).toMatch(/is paid on Base, real money/)
  expect(reasonOf([{ ...accept, network: 'solana:5eykt' }])).toMatch(/is paid on solana:5eykt/)
  expect(reasonOf([{ ...accept, asset: payTo }])).toMatch(/another asset than USDC/)
  expect(reasonOf([{ ...accept, scheme: 'upto' }])).toMatch(/the scheme upto/)
  expect(reasonOf([{ ...accept, payTo: 'me' }])).toMatch(/no account/)
  expect(reasonOf([{ ...accept, amount: '0' }])).toMatch(/price is 0/)
  expect(reasonOf([{ ...accept, amount: '1000000000001' }])).toMatch(/above 1000000/)
  for (const none of [undefined, null, {}, 'x', [], [null], [[]]]) expect(reasonOf(none)).toMatch(/no price/)
  expect(reasonOf([{ ...accept, network: 'eip155:1' }, accept])).toBe('payable')
})

test.each([
  ['http', 'http://weather.example/'],
  ['another scheme', 'ftp://weather.example/'],
  ['script', 'javascript:alert(1)'],
  ['a file', 'file:///etc/passwd'],
  ['the tool of an SDK', 'mcp://tool/weather'],
  ['a user name', 'https://user@weather.example/'],
  ['a password', 'https://:secret@weather.example/'],
  ['a fragment', 'https://weather.example/#x'],
  ['loopback', 'https://127.0.0.1/'],
  ['loopback as a number', 'https://2130706433/'],
  ['loopback in hex', 'https://0x7f.1/'],
  ['loopback in octal', 'https://0177.0.0.1/'],
  ['loopback of IPv6', 'https://[::1]/'],
  ['IPv4 in IPv6', 'https://[::ffff:10.0.0.1]/'],
  ['NAT64', 'https://[64:ff9b::a00:1]/'],
  ['metadata', 'https://169.254.169.254/latest/'],
  ['CGNAT', 'https://100.64.0.1/'],
  ['a name without dots', 'https://localhost/'],
  ['a name of this machine with dots behind it', 'https://localhost../'],
  ['a name of the network', 'https://printer.local/'],
  ['the same with a dot', 'https://printer.local./'],
  ['an internal name', 'https://metadata.google.internal/'],
  ['a port of mail', 'https://weather.example:25/'],
  ['2,100 characters', `https://weather.example/${'x'.repeat(2100)}`],
  ['no URL', 'weather'],
  ['a number', 5],
])('a resource at %s is no entry', (_, resource) => {
  expect(read({ resource })).toBeUndefined()
})

test('addresses of the own network are taken only from a catalog that may name them', () => {
  expect(resourceUrl('http://127.0.0.1:8080/x', true)).toBe('http://127.0.0.1:8080/x')
  expect(resourceUrl('file:///etc/passwd', true)).toBeUndefined()
  expect(resourceUrl('http://user@127.0.0.1/', true)).toBeUndefined()
})

test('T38: texts lose what a terminal, a reader or a language model would take for something else', () => {
  const escapes = '\u001b[2J\u001b]0;owned\u0007Free\u202e CDSU\u200b money\u{e0049}\u{e0067}\r\nline'
  const entry = read({
    serviceName: escapes,
    description: `<script>${'x'.repeat(2000)}`,
    tags: ['a', 'a', 5, '\u0000b', 'c'],
  })!
  expect(entry.name).not.toMatch(/[\p{Cc}\p{Cf}\n]/u)
  expect(entry.description!.length).toBeLessThanOrEqual(300)
  expect(entry.tags).toEqual(['a', 'b', 'c'])
})

test('an item may be anything', () => {
  for (const other of [undefined, null, 5, 'x', [], {}, { resource: {} }, { resource: { url: 5 } }]) {
    expect(readItem(other, own, false)).toBeUndefined()
  }
  const nested = JSON.parse('{"__proto__":{"resource":"https://weather.example/"}}') as unknown
  expect(readItem(nested, own, false)).toBeUndefined()
  expect(read({ type: 'mcp', serviceName: 5, tags: {}, quality: 'x', extensions: [] })).toMatchObject({
    name: undefined,
  })
})

test('the method, the URL and the tool make the id, and no other field does', () => {
  const id = read({})!.id
  expect(read({ serviceName: 'Another', accepts: [] })!.id).toBe(id)
  expect(read({ resource: 'HTTPS://WEATHER.example:443/now' })!.id).toBe(id)
  expect(read({ resource: 'https://weather.example/now?x=1' })!.id).not.toBe(id)
  expect(read({ extensions: undefined })!.id).not.toBe(id)
})
