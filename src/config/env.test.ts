import { expect, test } from 'vitest'
import { Env, isSecret, readEnv, secretValues, variablesTable } from './env.ts'

const key = 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'

test('a wallet key is read with and without 0x, in any letter case (D4)', () => {
  for (const text of [key, `0x${key}`, `0X${key.toUpperCase()}`, ` ${key}\n`]) {
    expect(readEnv({ ETHEREUM_PRIVATE_KEY: text }).ETHEREUM_PRIVATE_KEY).toBe(`0x${key}`)
  }
})

test.each([
  ['zero', '0'.repeat(64)],
  ['the order of the curve', 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'],
  ['more than the order', 'f'.repeat(64)],
  ['a digit short', key.slice(1)],
  ['a digit long', `${key}0`],
  ['no hex', 'g'.repeat(64)],
  ['a seed phrase', 'test test test test test test test test test test test junk'],
])('refuses a wallet key that is %s, and does not show it (T21)', (_, text) => {
  for (const name of ['ETHEREUM_PRIVATE_KEY', 'SELLER_PRIVATE_KEY', 'BUYER_PRIVATE_KEY']) {
    const message = messageOf({ [name]: text })
    expect(message).toMatch(new RegExp(`^${name}: the value is not valid: expected a secp256k1 private key`))
    expect(message).not.toContain(text)
    expect(message.split('\n')).toHaveLength(1)
  }
})

test.each([
  ['NODE_API_PORT', '65536', 'a port, 0 to 65535'],
  ['NODE_API_PORT', '80a', 'a port'],
  ['NODE_API_PORT', '-1', 'a port'],
  ['NODE_API_PORT', '1e3', 'a port'],
  ['NODE_NETWORK', 'base', 'one of eip155:84532'],
  ['FACILITATOR_URL', 'ftp://x.org', 'an http:// or https:// URL'],
  ['FACILITATOR_URL', 'https://me:pw@x.org', 'without user name or password'],
  ['FACILITATOR_URL', 'x402.org', 'an http:// or https:// URL'],
  ['NODE_PUBLIC_URL', 'https://me:pw@node.example', 'without user name, password, ? or #'],
  ['NODE_PUBLIC_URL', 'https://node.example/?a=b', 'without user name, password, ? or #'],
  ['NODE_PUBLIC_URL', 'node.example', 'an http:// or https:// URL'],
  ['OPENAI_BASE_URL', 'file:///etc/passwd', 'an http:// or https:// URL'],
  ['NODE_ANNOUNCE_ADDR', '203.0.113.7:4001', 'a multiaddr such as'],
  ['NODE_ANNOUNCE_ADDR', '/ip4/300.0.113.7/tcp/4001', 'a multiaddr such as'],
  ['NODE_ANNOUNCE_ADDR', '/ip4/203.0.113.7/tcp/70000', 'a multiaddr such as'],
  ['BOOTSTRAP_PEERS', '/ip4/203.0.113.7/tcp/4001', 'a multiaddr that ends in the peer id'],
  ['NODE_LISTEN_HOST', 'localhost', 'IP addresses of this machine'],
  ['NODE_API_HOST', '127.0.0.1:8424', 'without a port'],
  ['NODE_API_HOST', '*', 'a host name or an IP address'],
  ['NODE_CORS_ORIGINS', '*', '* is not allowed'],
  ['NODE_CORS_ORIGINS', 'null', 'origins such as'],
  ['NODE_CORS_ORIGINS', 'https://app.example.org/path', 'without a path'],
])('refuses %s=%s in one line that names variable, value and what is expected', (name, text, expected) => {
  const message = messageOf({ [name]: text })
  expect(message).toContain(`${name}: "${text}" is not valid: expected `)
  expect(message).toContain(expected)
  expect(message.split('\n')).toHaveLength(1)
})

test('an RPC URL, which often holds a key, is not shown when refused (T21)', () => {
  expect(messageOf({ ETHEREUM_RPC_URL: 'wss://host/v2/SECRETKEY' })).toMatch(
    /^ETHEREUM_RPC_URL: the value is not valid/,
  )
})

test('every bad variable has its line', () => {
  const lines = messageOf({ NODE_API_PORT: 'x', NODE_NETWORK: 'y', NODE_API_TOKEN: 'short' }).split('\n')
  expect(lines.map((line) => line.split(':')[0])).toEqual(['NODE_NETWORK', 'NODE_API_PORT', 'NODE_API_TOKEN'])
})

test('an empty variable counts as unset', () => {
  const empty = Object.fromEntries(Object.keys(Env.shape).map((name) => [name, ' ']))
  expect(readEnv(empty)).toEqual({})
})

test('lists are split at commas, without duplicates and spaces', () => {
  const env = readEnv({
    NODE_ANNOUNCE_ADDR: ' /ip4/203.0.113.7/tcp/4001, /dns4/a.example/udp/4001/quic-v1 ,/ip4/203.0.113.7/tcp/4001,',
    NODE_LISTEN_HOST: '0.0.0.0,::',
    NODE_CORS_ORIGINS: 'https://APP.example.org,http://localhost:3000',
    BOOTSTRAP_PEERS: '/dnsaddr/boot.example.org/p2p/12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz',
  })
  expect(env.NODE_ANNOUNCE_ADDR).toEqual(['/ip4/203.0.113.7/tcp/4001', '/dns4/a.example/udp/4001/quic-v1'])
  expect(env.NODE_LISTEN_HOST).toEqual(['0.0.0.0', '::'])
  expect(env.NODE_CORS_ORIGINS).toEqual(['https://app.example.org', 'http://localhost:3000'])
  expect(env.BOOTSTRAP_PEERS).toHaveLength(1)
})

test('a bad value shows no control characters', () => {
  expect(messageOf({ NODE_NETWORK: '\u001b[2Jbase\u202e\u009b' })).toContain('"\\u001b[2Jbase\\u202e\\u009b"')
})

test('all variables of D4 are read, and the secret variables are marked', () => {
  const names =
    'NODE_DATA_DIR NODE_ANNOUNCE_ADDR SELLER_PRIVATE_KEY BUYER_PRIVATE_KEY ETHEREUM_PRIVATE_KEY ETHEREUM_RPC_URL FACILITATOR_URL NODE_NETWORK BOOTSTRAP_PEERS NODE_API_HOST NODE_API_PORT NODE_API_TOKEN NODE_CORS_ORIGINS OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY GOOGLE_API_KEY CDP_API_KEY_ID CDP_API_KEY_SECRET DATABASE_URL'
  expect(Object.keys(Env.shape)).toEqual(expect.arrayContaining(names.split(' ')))
  for (const name of Object.keys(Env.shape).filter((name) => /(KEY|TOKEN|DATABASE_URL)(?!_FILE)/.test(name)))
    expect(isSecret(name)).toBe(true)
  expect(secretValues({ OPENAI_API_KEY: 'sk-1', NODE_NETWORK: 'x', NODE_API_TOKEN: '' })).toEqual(['sk-1'])
})

test('every variable has a row with a description', () => {
  const rows = variablesTable().split('\n').slice(2)
  expect(rows).toHaveLength(Object.keys(Env.shape).length)
  for (const row of rows) expect(row).toMatch(/^\| `[A-Z_]+` \| .{10,} \| .* \| .* \|$/)
})

function messageOf(environment: Record<string, string>): string {
  try {
    readEnv(environment)
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('was accepted')
}
