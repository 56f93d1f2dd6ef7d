import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { readEnv } from './env.ts'
import { createSecrets } from './secrets.ts'

const keyOf = (digit: string) => `0x${digit.repeat(64)}` as const
const secretsOf = (environment: Record<string, string>) => createSecrets(readEnv(environment), environment)

test('secrets cannot be printed (T21)', () => {
  const secrets = secretsOf({
    ETHEREUM_PRIVATE_KEY: keyOf('1'),
    NODE_API_TOKEN: 'token-token-token-token',
    OPENAI_API_KEY: 'sk-openai',
    ANTHROPIC_API_KEY: 'sk-anthropic',
    DATABASE_URL: 'postgres://stoa:hunter2hunter2@db.example/stoa',
  })
  const printed = [
    JSON.stringify(secrets),
    JSON.stringify({ deep: [{ secrets }] }),
    inspect(secrets, { showHidden: true, depth: 9 }),
    inspect({ secrets }, { depth: 9 }),
    `${secrets}`,
    JSON.stringify({ ...secrets }),
    JSON.stringify(secrets.providerKeys),
    inspect(secrets.providerKeys, { showHidden: true }),
    JSON.stringify(Object.entries(secrets)),
    JSON.stringify(secrets.database),
    inspect(secrets.database, { showHidden: true }),
  ]
  for (const text of printed) expect(text).not.toMatch(/1111|token-|sk-|hunter2/)
  expect(JSON.stringify(secrets)).toBe('"[secrets]"')
  expect(inspect(secrets)).toBe('[secrets]')
  expect(secrets.walletKey).toBe(keyOf('1'))
  expect(secrets.database?.url).toBe('postgres://stoa:hunter2hunter2@db.example/stoa')
  expect(secrets.providerKeys.openai).toBe('sk-openai')
  expect(secrets.providerKeys.google).toBeUndefined()
})

test('ETHEREUM_PRIVATE_KEY overrides the role keys, and each role key works alone (D4)', () => {
  const [own, seller, buyer] = [keyOf('1'), keyOf('2'), keyOf('3')]
  expect(secretsOf({}).walletKey).toBeUndefined()
  expect(secretsOf({ SELLER_PRIVATE_KEY: seller }).walletKey).toBe(seller)
  expect(secretsOf({ BUYER_PRIVATE_KEY: buyer }).walletKey).toBe(buyer)
  expect(secretsOf({ SELLER_PRIVATE_KEY: seller, BUYER_PRIVATE_KEY: seller }).walletKey).toBe(seller)
  expect(secretsOf({ ETHEREUM_PRIVATE_KEY: own, SELLER_PRIVATE_KEY: seller, BUYER_PRIVATE_KEY: buyer }).walletKey).toBe(
    own,
  )
})

test('two different role keys are refused, because the node has only one wallet', () => {
  expect(() => secretsOf({ SELLER_PRIVATE_KEY: keyOf('2'), BUYER_PRIVATE_KEY: keyOf('3') })).toThrow(
    /SELLER_PRIVATE_KEY and BUYER_PRIVATE_KEY are set to different keys.*set ETHEREUM_PRIVATE_KEY$/,
  )
})

test('api_key_env of an agent can read model keys but never the secrets of the node (T12)', () => {
  const secrets = secretsOf({
    MY_MODEL_KEY: ' sk-mine ',
    EMPTY: '',
    ETHEREUM_PRIVATE_KEY: keyOf('1'),
    SELLER_PRIVATE_KEY: keyOf('1'),
    NODE_API_TOKEN: 'token-token-token-token',
    DATABASE_URL: 'postgres://u:p@h/d',
    ETHEREUM_RPC_URL: 'https://host/key',
  })
  expect(secrets.env('MY_MODEL_KEY')).toBe('sk-mine')
  expect(secrets.env('EMPTY')).toBeUndefined()
  expect(secrets.env('constructor')).toBeUndefined()
  for (const name of [
    'ETHEREUM_PRIVATE_KEY',
    'SELLER_PRIVATE_KEY',
    'NODE_API_TOKEN',
    'DATABASE_URL',
    'ETHEREUM_RPC_URL',
  ]) {
    expect(secrets.env(name)).toBeUndefined()
  }
})
