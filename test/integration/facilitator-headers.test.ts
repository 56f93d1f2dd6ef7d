import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { openFacilitator } from '../../src/payments/open-facilitator.ts'
import { requirements, signed } from '../support/payments.ts'

const stops: (() => unknown)[] = []
afterEach(() => Promise.all(stops.splice(0).map((stop) => stop())))

async function server() {
  const seen: IncomingHttpHeaders[] = []
  const listening = createServer((request, response) => {
    seen.push(request.headers)
    request.resume().on('end', () => {
      const answer = { success: true, transaction: `0x${'12'.repeat(32)}`, network: 'eip155:84532', payer: '' }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  stops.push(() => listening.close())
  return { seen, url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}`, close: () => listening.close() }
}

test('facilitator.headers_env: the first facilitator has the headers with the values of their variables, no other has', async () => {
  const [first, second] = [await server(), await server()]
  const config = {
    ...{ facilitatorUrl: first.url, facilitatorFallbacks: [second.url] },
    facilitatorHeaders: ['X-Api-Key=FACILITATOR_KEY'],
  }
  const secrets = {
    facilitatorKey: undefined,
    env: (name: string) => (name === 'FACILITATOR_KEY' ? 'a key' : undefined),
  }
  const both = openFacilitator(config, secrets, { clock: systemClock, logger: silentLogger, chain: undefined })!
  stops.push(() => both.close())
  const asked = requirements({})
  const payment = () => signed(systemClock.now(), { requirements: asked }).envelope.payload!
  const signal = AbortSignal.timeout(60_000)
  expect(await both.settle(payment(), asked, signal)).toMatchObject({ kind: 'settled' })
  await new Promise((resolve) => first.close().on('close', resolve).closeAllConnections())
  const fallback = await both.settle(payment(), asked, signal)
  if (fallback.kind !== 'settled')
    expect(await both.settle(payment(), asked, signal)).toMatchObject({ kind: 'settled' })
  expect(first.seen[0]!['x-api-key']).toBe('a key')
  expect(second.seen.length).toBeGreaterThan(0)
  expect(second.seen.every((headers) => headers['x-api-key'] === undefined)).toBe(true)
})
