import type { Connection } from '@libp2p/interface'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { describe, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { dialFirst, SharedDials } from './dial.ts'

const timing = { staggerMs: 5, attemptMs: 10_000 }
const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map((ip) => multiaddr(`/ip4/${ip}/tcp/4001`))
const never = new AbortController().signal
const connectionTo = (address: Multiaddr) => ({ remoteAddr: address }) as Connection

/** Answers as the script says of each address: at once, never, or with an error. Notes what it was asked. */
function scripted(script: Record<string, 'answers' | 'silent' | 'refuses'>) {
  const dialed: string[] = []
  const signals = new Map<string, AbortSignal>()
  const dial: Parameters<typeof dialFirst>[1] = async (address, signal) => {
    const ip = address.getComponents()[0]!.value!
    dialed.push(ip)
    signals.set(ip, signal)
    if (script[ip] === 'refuses') {
      throw Object.assign(new Error(`connection error ${ip}:4001: connect ECONNREFUSED`), { code: 'ECONNREFUSED' })
    }
    if (script[ip] === 'silent') await new Promise<never>(() => {})
    return connectionTo(address)
  }
  return { dial, dialed, signals }
}

test('an address that never answers does not delay the next', async () => {
  const { dial, dialed, signals } = scripted({ '192.0.2.1': 'silent', '192.0.2.2': 'answers' })
  const connection = await dialFirst(addresses, dial, timing, never)
  expect(connection.remoteAddr.toString()).toContain('192.0.2.2')
  expect(dialed).toEqual(['192.0.2.1', '192.0.2.2'])
  expect(signals.get('192.0.2.1')?.aborted).toBe(true)
  expect(signals.get('192.0.2.2')?.aborted).toBe(false)
})

test('after a refusal the next address is tried at once', async () => {
  const { dial } = scripted({ '192.0.2.1': 'refuses', '192.0.2.2': 'refuses', '192.0.2.3': 'answers' })
  const connection = await dialFirst(addresses, dial, { ...timing, staggerMs: 60_000 }, never)
  expect(connection.remoteAddr.toString()).toContain('192.0.2.3')
})

test('an error names each reason once, with its addresses, if all fail', async () => {
  const { dial } = scripted({ '192.0.2.1': 'refuses', '192.0.2.2': 'silent', '192.0.2.3': 'refuses' })
  const peerId = '12D3KooWAeHjCanpxfADhF1GESgh1dk1kWKKxVxqrzWBzdt1KbUi'
  const whole = addresses.map((address) => multiaddr(`${address}/p2p/${peerId}`))
  const dialing = dialFirst(whole, dial, { staggerMs: 1, attemptMs: 20 }, never)
  await expect(dialing).rejects.toThrow(
    'ECONNREFUSED at /ip4/192.0.2.1/tcp/4001, /ip4/192.0.2.3/tcp/4001; no answer in 20 ms at /ip4/192.0.2.2/tcp/4001',
  )
})

test('without any address it fails and says so', async () => {
  await expect(dialFirst([], scripted({}).dial, timing, never)).rejects.toThrow(/no address known/)
})

test('the signal ends it at once and every attempt with it', async () => {
  const { dial, signals } = scripted({ '192.0.2.1': 'silent', '192.0.2.2': 'silent', '192.0.2.3': 'silent' })
  const controller = new AbortController()
  const dialing = dialFirst(addresses, dial, timing, controller.signal)
  controller.abort(new Error('enough'))
  await expect(dialing).rejects.toThrow('enough')
  for (const signal of signals.values()) expect(signal.aborted).toBe(true)
  await expect(dialFirst(addresses, dial, timing, controller.signal)).rejects.toThrow('enough')
})

test('callers at the same time share one dial, and one that gives up does not end it for the others', async () => {
  const dials = new SharedDials()
  const { promise, resolve } = Promise.withResolvers<Connection>()
  let begun = 0
  let ended: AbortSignal | undefined
  const dial = (signal: AbortSignal) => {
    begun += 1
    ended = signal
    return promise
  }
  const impatient = new AbortController()
  const first = dials.dial('peer', dial, impatient.signal)
  const second = dials.dial('peer', dial, never)
  impatient.abort(new Error('enough'))
  await expect(first).rejects.toThrow('enough')
  expect([begun, ended?.aborted]).toEqual([1, false])
  resolve(connectionTo(addresses[0]!))
  expect((await second).remoteAddr).toBe(addresses[0])
})

test('a dial that nobody waits for ends, and the next caller begins a new one', async () => {
  const dials = new SharedDials()
  const signals: AbortSignal[] = []
  const dial = (signal: AbortSignal) => {
    signals.push(signal)
    return new Promise<Connection>(() => {})
  }
  for (let round = 0; round < 2; round++) {
    const controller = new AbortController()
    const dialing = dials.dial('peer', dial, controller.signal)
    controller.abort(new Error('enough'))
    await expect(dialing).rejects.toThrow('enough')
  }
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
})

describe('a dial that began while the port was shut', () => {
  /** Dials of which each ends as its test says, at a time that its test sets. */
  function market() {
    let now = 0
    const dials = new SharedDials(() => now)
    const begun: PromiseWithResolvers<Connection>[] = []
    const call = () => {
      const calling = dials.dial(
        'peer',
        () => {
          const one = Promise.withResolvers<Connection>()
          begun.push(one)
          return one.promise
        },
        never,
      )
      calling.catch(() => {})
      return calling
    }
    return { begun, call, wait: (ms: number) => (now += ms) }
  }

  test('is not shared by a later call', async () => {
    const { begun, call, wait } = market()
    const early = call()
    wait(501)
    const late = call()
    expect(begun).toHaveLength(2)
    begun[1]!.resolve(connectionTo(addresses[0]!))
    expect((await late).remoteAddr).toBe(addresses[0])
    begun[0]!.reject(new Error('the port is shut'))
    await expect(early).rejects.toThrow('the port is shut')
  })

  test('does not speak for a call that has joined it: that one tries again, once', async () => {
    const { begun, call, wait } = market()
    const early = call()
    wait(400)
    const joined = [call(), call()]
    expect(begun).toHaveLength(1)
    begun[0]!.reject(new Error('the port is shut'))
    await expect(early).rejects.toThrow('the port is shut')
    await until(() => begun.length === 2)
    begun[1]!.reject(new Error('still shut'))
    for (const one of joined) await expect(one).rejects.toThrow('still shut')
    expect(begun).toHaveLength(2)
  })
})
