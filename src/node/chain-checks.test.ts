import { expect, test } from 'vitest'
import { endlessAnswer } from '../../test/support/endless-answer.ts'
import { systemClock } from '../lib/clock.ts'
import { checkFacilitator } from './chain-checks.ts'

const network = 'eip155:84532'
const kinds = [{ x402Version: 2, scheme: 'exact', network }]

/** What doctor says of two facilitators that answer so. */
function look(statuses: Record<string, number>) {
  const answering = async (url: string | URL | Request) => {
    const status = statuses[new URL(String(url)).host]
    if (status === undefined) throw new TypeError('fetch failed')
    return Response.json({ kinds }, { status })
  }
  const config = {
    network,
    rpcUrl: undefined,
    facilitatorUrl: 'https://a.example',
    facilitatorFallbacks: ['https://b.example'],
  } as const
  const around = {
    config: { ...config, facilitatorFallbacks: [...config.facilitatorFallbacks] },
    clock: systemClock,
    sells: true,
  }
  return checkFacilitator({ ...around, fetch: answering as typeof fetch }, AbortSignal.timeout(5_000))
}

test('several facilitators are looked at, each in its turn', async () => {
  expect(await look({ 'a.example': 200, 'b.example': 200 })).toMatchObject({
    state: 'ok',
    text: expect.stringMatching(/a\.example.*b\.example/),
  })
  expect(await look({ 'b.example': 200 })).toMatchObject({
    state: 'warn',
    text: expect.stringMatching(/a\.example cannot be reached.*b\.example settles/),
  })
  expect(await look({})).toMatchObject({ state: 'fail' })
})

test('one that wants a key for the question is no failure: the key stays here', async () => {
  expect(await look({ 'a.example': 401, 'b.example': 200 })).toMatchObject({
    state: 'ok',
    text: expect.stringMatching(/requires a key/),
  })
})

test('T7 a facilitator whose answer does not end is read up to a limit', async () => {
  const endless = endlessAnswer('{"kinds": [')
  const config = { network, rpcUrl: undefined, facilitatorUrl: 'https://a.example', facilitatorFallbacks: [] } as const
  const around = { config: { ...config, facilitatorFallbacks: [] }, clock: systemClock, sells: true }
  const signal = AbortSignal.timeout(5_000)
  const found = await checkFacilitator({ ...around, fetch: async () => endless.response }, signal)
  expect(found).toMatchObject({
    state: 'fail',
    text: 'a.example is not an x402 facilitator: it answered something else',
  })
  expect(endless.bytesRead()).toBeLessThan(2 * 1024 * 1024)
  expect(endless.isCanceled()).toBe(true)
})
