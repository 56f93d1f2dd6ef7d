import { describe, expect, test } from 'vitest'
import { type Caller, OPERATOR } from '../../schema/caller.ts'
import { StoreError } from '../../store/store-error.ts'
import { createGuard, type GuardOptions } from './security.ts'

const options: GuardOptions = {
  host: '127.0.0.1',
  corsOrigins: ['https://app.example.org'],
  allowedHosts: ['node.example.org'],
  insecureOpen: false,
  requireToken: false,
  token: 'a-token-of-some-length',
}
const guard = createGuard(options)
const elsewhere = createGuard({ ...options, host: '0.0.0.0' })
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

test.each([
  'localhost',
  'localhost:8424',
  '127.0.0.1:9',
  '[::1]:8424',
  '192.168.1.7:8424',
  '[fe80::1]',
  'Node.Example.org',
])('D16 T11 takes the host %s', (host) => {
  expect(() => guard.checkHost({ host })).not.toThrow()
})

test.each([
  'evil.example',
  'evil.example:8424',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  'node.example.org.evil.example',
])('D16 T11 refuses the rebound host %s', (host) => {
  expect(() => guard.checkHost({ host })).toThrow(expect.objectContaining({ code: 'HOST_NOT_ALLOWED' }))
})

test('D16 refuses a missing or malformed Host', () => {
  for (const host of [undefined, '', 'a b', 'localhost, evil.example']) {
    const headers = host === undefined ? {} : { host }
    expect(() => guard.checkHost(headers)).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }))
  }
})

const own = [
  'http://localhost:3000',
  'http://127.0.0.1:8424',
  'https://[::1]:9',
  'https://app.example.org',
  'http://192.168.1.7:8424',
]
const foreign = [
  'https://evil.example',
  'null',
  '',
  'https://app.example.org.evil.example',
  'http://app.example.org',
  'https://app.example.org:444',
  'http://localhost.evil.example',
  'http://localhost@evil.example',
  'file://localhost',
  'http://192.168.1.8:8424',
  'http://192.168.1.7',
  'https://app.example.org, https://evil.example',
]
const host = '192.168.1.7:8424'

test.each(own)('D16 lets pages of %s do what is private', (origin) => {
  for (const method of ['GET', 'POST', 'DELETE']) {
    expect(() => guard.checkOrigin({ host, origin }, 'private', method)).not.toThrow()
    const cors = guard.corsHeaders({ host, origin }, 'private', method)
    expect(cors).toMatchObject({ 'access-control-allow-origin': origin, vary: 'Origin' })
  }
})

test.each(foreign)('D16 T11 refuses the origin %j everything but public reads', (origin) => {
  const refused = expect.objectContaining({ code: 'ORIGIN_NOT_ALLOWED' })
  for (const method of ['GET', 'HEAD', 'POST', 'DELETE']) {
    expect(() => guard.checkOrigin({ host, origin }, 'private', method)).toThrow(refused)
    expect(guard.corsHeaders({ host, origin }, 'private', method)).toEqual({ vary: 'Origin' })
  }
  for (const access of ['public', 'health'] as const) {
    expect(() => guard.checkOrigin({ host, origin }, access, 'GET')).not.toThrow()
    expect(guard.corsHeaders({ host, origin }, access, 'GET')).toMatchObject({ 'access-control-allow-origin': '*' })
    expect(() => guard.checkOrigin({ host, origin }, access, 'POST')).toThrow(refused)
  }
})

test('D16 T11 refuses what another site starts without naming its origin', () => {
  const from = (site: string, mode = 'no-cors') => ({ host, 'sec-fetch-site': site, 'sec-fetch-mode': mode })
  const refused = expect.objectContaining({ code: 'ORIGIN_NOT_ALLOWED' })
  for (const site of ['cross-site', 'same-site', 'anything']) {
    expect(() => guard.checkOrigin(from(site, 'navigate'), 'private', 'POST')).toThrow(refused)
  }
  expect(() => guard.checkOrigin(from('cross-site'), 'private', 'GET')).toThrow(refused)
})

test('D16 takes what the user, this page or no browser at all started', () => {
  const from = (site: string, mode: string) => ({ host, 'sec-fetch-site': site, 'sec-fetch-mode': mode })
  for (const method of ['GET', 'POST']) {
    expect(() => guard.checkOrigin({ host }, 'private', method)).not.toThrow()
    expect(() => guard.checkOrigin(from('same-origin', 'cors'), 'private', method)).not.toThrow()
    expect(() => guard.checkOrigin(from('none', 'navigate'), 'private', method)).not.toThrow()
  }
  expect(() => guard.checkOrigin(from('cross-site', 'navigate'), 'private', 'GET')).not.toThrow()
})

test('D16 needs no token on the loopback interface, nor where the operator opened the API', async () => {
  const open = createGuard({ ...options, host: '0.0.0.0', insecureOpen: true })
  for (const host of ['127.0.0.1', '::1', 'localhost', '127.3.2.1']) {
    const local = createGuard({ ...options, host })
    expect(local).toMatchObject({ needsToken: false, isOpen: false })
    await expect(local.identify({}, 'private', { address: '127.0.0.1' }, 0)).resolves.toBeDefined()
  }
  expect(open).toMatchObject({ needsToken: false, isOpen: true })
  await expect(open.identify({}, 'private', { address: '10.0.0.1' }, 0)).resolves.toBeDefined()
})

test.each(['0.0.0.0', '::', '192.168.1.7', 'node.example.org'])(
  'D16 needs the token when bound to %s',
  async (bound) => {
    const remote = createGuard({ ...options, host: bound })
    const refused = (code: string) =>
      expect.objectContaining({ code, headers: { 'www-authenticate': expect.any(String), connection: 'close' } })
    for (const access of ['public', 'private'] as const) {
      await expect(remote.identify({}, access, { address: '10.0.0.1' }, 0)).rejects.toThrow(refused('TOKEN_REQUIRED'))
      await expect(
        remote.identify({ authorization: 'Basic eA==' }, access, { address: '10.0.0.1' }, 0),
      ).rejects.toThrow(refused('TOKEN_REQUIRED'))
      await expect(remote.identify(bearer('another'), access, { address: '10.0.0.1' }, 0)).rejects.toThrow(
        refused('TOKEN_WRONG'),
      )
      await expect(remote.identify(bearer(options.token), access, { address: '10.0.0.1' }, 0)).resolves.toBeDefined()
    }
    await expect(remote.identify({}, 'health', { address: '10.0.0.1' }, 0)).resolves.toBeDefined()
  },
)

test('T11 limits how often one address may guess the token, and no other address', async () => {
  const remote = createGuard({ ...options, host: '0.0.0.0' })
  const attempt = async (token: string, address: string, now: number) => {
    try {
      await remote.identify(bearer(token), 'private', { address }, now)
      return 'taken'
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  const guesses = await Promise.all(Array.from({ length: 100 }, (_, index) => attempt(`guess-${index}`, '10.0.0.1', 0)))
  expect(guesses.filter((code) => code === 'TOKEN_WRONG')).toHaveLength(20)
  expect(guesses.at(-1)).toBe('TOO_MANY_ATTEMPTS')
  // A right one is never limited: behind a proxy everybody has its address.
  expect(await attempt(options.token, '10.0.0.1', 0)).toBe('taken')
  expect(await attempt('guess', '10.0.0.1', 0)).toBe('TOO_MANY_ATTEMPTS')
  expect(await attempt(options.token, '10.0.0.2', 0)).toBe('taken')
  expect(await attempt(options.token, '10.0.0.1', 60_000)).toBe('taken')
})

test('T11 counts the addresses of one IPv6 network as one', async () => {
  const attempt = (address: string) => elsewhere.identify(bearer('wrong'), 'private', { address }, 0)
  for (let index = 0; index < 20; index++) {
    await expect(attempt(`2001:db8::${(index + 1).toString(16)}`)).rejects.toThrow(
      expect.objectContaining({ code: 'TOKEN_WRONG' }),
    )
  }
  const limited = expect.objectContaining({ code: 'TOO_MANY_ATTEMPTS' })
  await expect(attempt('2001:db8::ffff:1:2:3')).rejects.toThrow(limited)
  await expect(attempt('2001:db8:0:0:9:9:9:9')).rejects.toThrow(limited)
  await expect(attempt('2001:db8:0:1::1')).rejects.toThrow(expect.objectContaining({ code: 'TOKEN_WRONG' }))
})

test('T11 a missing token is no guess', async () => {
  const remote = createGuard({ ...options, host: '0.0.0.0' })
  for (let index = 0; index < 100; index++) {
    await expect(remote.identify({}, 'private', { address: '10.0.0.1' }, 0)).rejects.toThrow(
      expect.objectContaining({ code: 'TOKEN_REQUIRED' }),
    )
  }
  await expect(remote.identify(bearer(options.token), 'private', { address: '10.0.0.1' }, 0)).resolves.toBeDefined()
})

describe('D16 a token that is sent counts, wherever the API is bound', () => {
  const spender: Caller = { scope: 'spend', tokenId: 'a' }
  const deps = { identify: async (text: string) => (text === 'of-a-program' ? spender : undefined) }
  const asked = (changes: Partial<GuardOptions>, token?: string) =>
    createGuard({ ...options, ...changes }, deps).identify(
      token === undefined ? {} : bearer(token),
      'private',
      { address: '::1' },
      0,
    )

  test.each(['127.0.0.1', '0.0.0.0'])(
    'so one that holds no longer is nobody’s, never the operator’s, on %s',
    async (host) => {
      expect(await asked({ host }, 'of-a-program')).toEqual(spender)
      expect(await asked({ host }, options.token)).toEqual(OPERATOR)
      await expect(asked({ host }, 'of-nobody')).rejects.toThrow(expect.objectContaining({ code: 'TOKEN_WRONG' }))
    },
  )

  test('the token of the data directory is the operator’s, beside that of the environment', async () => {
    expect(await asked({ fileToken: 'of-the-directory' }, 'of-the-directory')).toEqual(OPERATOR)
    expect(await asked({ fileToken: 'of-the-directory' }, options.token)).toEqual(OPERATOR)
  })

  test('and a stale one locks nobody out where none is needed', async () => {
    const local = createGuard(options, deps)
    for (let count = 0; count < 100; count++) {
      await expect(local.identify(bearer('stale'), 'private', { address: '127.0.0.1' }, 0)).rejects.toThrow(
        expect.objectContaining({ code: 'TOKEN_WRONG' }),
      )
    }
    expect(await local.identify(bearer(options.token), 'private', { address: '127.0.0.1' }, 0)).toEqual(OPERATOR)
  })

  test.each(['', 'Bearer ', 'Basic eDp5', 'a token'])(
    'and a header without one (%j) is refused where none is needed: its sender wants to be checked',
    async (authorization) => {
      const local = createGuard(options, deps)
      const refused = expect.objectContaining({ code: 'TOKEN_REQUIRED' })
      await expect(local.identify({ authorization }, 'private', { address: '127.0.0.1' }, 0)).rejects.toThrow(refused)
      expect(await local.holds({ authorization })).toBe(false)
    },
  )

  test('and none will do on loopback where the configuration asks for one', async () => {
    expect(await asked({})).toEqual(OPERATOR)
    await expect(asked({ requireToken: true })).rejects.toThrow(expect.objectContaining({ code: 'TOKEN_REQUIRED' }))
    expect(await asked({ requireToken: true }, options.token)).toEqual(OPERATOR)
  })
})

test('D16 on loopback too, what a proxy brings from elsewhere needs the token: its sender is not of this machine', async () => {
  const brought = [
    { host: 'node.example.org' },
    { host: '203.0.113.7' },
    { host: '127.0.0.1:8424', 'x-forwarded-for': '203.0.113.9' },
    { host: 'localhost', forwarded: 'for=203.0.113.9' },
    { host: 'localhost', via: '1.1 proxy' },
    { host: 'localhost', 'x-forwarded-proto': 'https' },
    { host: 'localhost', 'x-forwarded-host': 'node.example.org' },
    { host: 'localhost', 'cf-connecting-ip': '203.0.113.9' },
    { host: 'localhost', 'true-client-ip': '203.0.113.9' },
    { host: 'localhost', 'x-envoy-external-address': '203.0.113.9' },
    { host: 'localhost', 'x-original-url': '/' },
  ]
  for (const headers of brought) {
    await expect(guard.identify(headers, 'public', { address: '127.0.0.1' }, 0)).rejects.toThrow(
      expect.objectContaining({ code: 'TOKEN_REQUIRED' }),
    )
    expect(await guard.holds(headers)).toBe(false)
    expect(
      await guard.identify({ ...headers, ...bearer(options.token) }, 'private', { address: '127.0.0.1' }, 0),
    ).toEqual(OPERATOR)
  }
  await expect(
    guard.identify({ host: 'localhost' }, 'private', { address: '127.0.0.1', httpVersion: '1.0' }, 0),
  ).rejects.toThrow(expect.objectContaining({ code: 'TOKEN_REQUIRED' }))
  for (const host of ['localhost:8424', '127.0.0.1', '[::1]:8424'])
    expect(await guard.identify({ host }, 'private', { address: '127.0.0.1' }, 0)).toEqual(OPERATOR)
  const open = createGuard({ ...options, host: '0.0.0.0', insecureOpen: true })
  expect(await open.identify(brought[0]!, 'private', { address: '10.0.0.1' }, 0)).toEqual(OPERATOR)
})

test('T11 what no budget bounds needs a token on loopback too', async () => {
  const local = { host: 'localhost:8424' }
  expect(await guard.identify(local, 'private', { address: '127.0.0.1' }, 0)).toBe(OPERATOR)
  const refused = expect.objectContaining({ code: 'TOKEN_REQUIRED' })
  await expect(guard.identify(local, 'token', { address: '127.0.0.1' }, 0)).rejects.toThrow(refused)
  expect(await guard.identify({ ...local, ...bearer(options.token) }, 'token', { address: '127.0.0.1' }, 0)).toBe(
    OPERATOR,
  )
  expect(() => guard.checkOrigin({ ...local, origin: 'https://evil.example' }, 'token', 'POST')).toThrow()
})

/** A guard that is open to the network, whose ledger knows one token. `asked`: what the ledger was asked for. */
function guardOfLedger(identify = async (text: string) => (text === 'stored' ? OPERATOR : undefined)) {
  const asked: string[] = []
  const known = (text: string) => {
    asked.push(text)
    return identify(text)
  }
  return { asked, guard: createGuard({ ...options, host: '0.0.0.0' }, { identify: known }) }
}

test('T11 made-up tokens of one address have the ledger read a bounded number of times, and lock out no valid token', async () => {
  const { asked, guard: remote } = guardOfLedger()
  const ask = (token: string) => remote.identify(bearer(token), 'private', { address: '10.0.0.1' }, 0)
  await expect(ask('stored')).resolves.toBe(OPERATOR)
  for (let n = 0; n < 200; n += 1) await ask(`made-up-${n}`).catch(() => {})
  expect(asked.length).toBeLessThanOrEqual(1 + 20 + 20)
  await expect(ask('stored')).resolves.toBe(OPERATOR)
  await expect(ask(options.token)).resolves.toBe(OPERATOR)
})

test('T11 who has no token is not told which database the node cannot reach', async () => {
  const { guard: remote } = guardOfLedger(async () => {
    throw new StoreError('STORE_AWAY', 'the database "ledger" of stoa at 10.1.2.3:5432 does not answer')
  })
  const error = await remote.identify(bearer('made-up'), 'private', { address: '10.0.0.1' }, 0).catch((e: unknown) => e)
  expect(error).toMatchObject({ code: 'STORE_AWAY' })
  expect(String(error)).not.toMatch(/10\.1\.2\.3|"ledger"|of stoa/)
})
