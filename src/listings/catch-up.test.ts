import { afterEach, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { silentLogger } from '../lib/logger.ts'
import type { PeerView } from '../p2p/host.ts'
import { CatchUp, type CatchUpOptions } from './catch-up.ts'
import type { SyncOutcome } from './sync-sessions.ts'

const quick: CatchUpOptions = { retryMs: 1, followUpMs: 1, roundMs: 1_000_000, triesMax: 4 }
const running: CatchUp[] = []

afterEach(async () => {
  for (const catchUp of running.splice(0)) await catchUp.stop()
})

function start(peers: string[], meet: (peerId: string, signal: AbortSignal) => Promise<SyncOutcome>, options = {}) {
  const host = { peers: () => peers.map((peerId): PeerView => ({ peerId, addresses: [], direction: 'outbound' })) }
  const catchUp = new CatchUp({ ...quick, ...options }, { host, sessions: { meet }, logger: silentLogger })
  running.push(catchUp)
  catchUp.start()
  return catchUp
}

test('peers that are connected at the start are caught up with, twice', async () => {
  const sessions: string[] = []
  start(['a', 'b'], async (peerId) => {
    sessions.push(peerId)
    return 'news'
  })
  await until(() => sessions.length === 4)
  expect(sessions.toSorted()).toEqual(['a', 'a', 'b', 'b'])
})

test('a peer that does not yet answer is asked again, up to a limit', async () => {
  let tries = 0
  const peers = ['a']
  const catchUp = start(peers, async () => {
    tries++
    if (tries !== 3) throw new Error('not yet')
    return 'equal'
  })
  await until(() => tries === 4)

  tries = 10
  peers[0] = 'b'
  catchUp.attend('b')
  await until(() => tries === 14)
  await until(() => {
    catchUp.attend('b')
    return tries > 14
  })
})

test('a peer without the protocol is asked twice, then ignored', async () => {
  let tries = 0
  const catchUp = start(['a'], async () => {
    tries++
    return 'foreign'
  })
  await until(() => tries === 2)
  await catchUp.stop()
  expect(tries).toBe(2)
})

test('a hostile peer is not asked again until it connects anew', async () => {
  let tries = 0
  const catchUp = start(['a'], async () => {
    tries++
    return 'hostile'
  })
  await until(() => tries === 1)
  await until(() => {
    catchUp.attend('a')
    return tries === 2
  })
})

test('a peer that has left is not tried further', async () => {
  const peers = ['a']
  let tries = 0
  start(peers, async () => {
    tries++
    peers.length = 0
    throw new Error('gone')
  })
  const others: string[] = []
  start(['b'], async (peerId) => {
    others.push(peerId)
    throw new Error('not yet')
  })
  await until(() => others.length === 4)
  expect(tries).toBe(1)
})

test('sessions at once are bounded, and the others wait in line', async () => {
  const peers = Array.from({ length: 10 }, (_, n) => `p${n}`)
  const open: (() => void)[] = []
  const done: string[] = []
  let most = 0
  start(
    peers,
    async (peerId) => {
      await new Promise<void>((resolve) => {
        open.push(resolve)
        most = Math.max(most, open.length - done.length)
      })
      done.push(peerId)
      return 'news'
    },
    { concurrentMax: 3 },
  )
  await until(() => open.length === 3)
  for (let n = 0; n < 20; n++) await until(() => open[n]).then((release) => release())
  await until(() => done.length === 20)
  expect(most).toBe(3)
})

test('a peer that comes and goes is attended to once at a time', async () => {
  let tries = 0
  let release = () => {}
  const catchUp = start([], () => {
    tries++
    return new Promise((resolve) => {
      release = () => resolve('equal')
    })
  })
  for (let n = 0; n < 50; n++) catchUp.attend('a')
  await until(() => tries === 1)
  release()
  await catchUp.stop()
  expect(tries).toBe(1)
})

test('rounds ask peers again, and peers without news less and less often (T19)', async () => {
  const sessions = { useful: 0, useless: 0 }
  start(
    ['useful', 'useless'],
    async (peerId) => {
      sessions[peerId as keyof typeof sessions]++
      return peerId === 'useful' ? 'equal' : 'idle'
    },
    { roundMs: 1 },
  )
  await until(() => sessions.useful > 60)
  expect(sessions.useless).toBeLessThan(12)
})

test('stop aborts a running session and waits for its end', async () => {
  let begun = false
  let ended = false
  const catchUp = start(['a'], async (_, signal) => {
    begun = true
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    ended = true
    throw signal.reason
  })
  await until(() => begun)
  await catchUp.stop()
  expect(ended).toBe(true)
})
