import { describe, expect, it } from 'vitest'
import type { Hex } from '../schema/primitives.ts'
import { eventTopics } from './abi.ts'
import { findAuthorizationLog } from './authorization-log.ts'
import { createLogWindow } from './log-search.ts'
import { type Rpc, RpcRefusal } from './rpc.ts'
import { authorizationTopics } from './usdc.ts'

const authorization = {
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  from: '0x08c86B491A37C2FFC25072a17c7A97EF2D0357dd',
  nonce: `0x${'42'.repeat(32)}`,
} as const satisfies Record<string, Hex>

type Filter = { fromBlock: string; toBlock: string; address: string; topics: unknown }

/** A chain of `latest` blocks with the event in block `at`, behind an RPC that takes ranges of up to `rangeMax` blocks. */
function chainOf({ latest, at, rangeMax = 10_000 }: { latest: number; at?: number; rangeMax?: number }) {
  const ranges: [number, number][] = []
  const rpc: Rpc = {
    async call(method, params) {
      if (method === 'eth_blockNumber') return `0x${latest.toString(16)}`
      const filter = params[0] as Filter
      expect(filter).toMatchObject({
        address: authorization.asset,
        topics: authorizationTopics(authorization.from, authorization.nonce),
      })
      const range: [number, number] = [
        Number(filter.fromBlock),
        filter.toBlock === 'latest' ? latest : Number(filter.toBlock),
      ]
      if (range[1] - range[0] + 1 > rangeMax) throw new RpcRefusal('the RPC refuses eth_getLogs: range too wide')
      ranges.push(range)
      return at !== undefined && at >= range[0] && at <= range[1] ? [log()] : []
    },
  }
  return { rpc, ranges }
}

function log(change: object = {}) {
  const [, from, nonce] = authorizationTopics(authorization.from, authorization.nonce)
  return {
    address: authorization.asset,
    topics: [eventTopics.authorizationUsed, from, nonce],
    data: '0x',
    transactionHash: `0x${'ab'.repeat(32)}`,
    logIndex: '0x0',
    removed: false,
    ...change,
  }
}

describe('findAuthorizationLog', () => {
  it('looks at the newest blocks first and finds what just happened in one request', async () => {
    const { rpc, ranges } = chainOf({ latest: 1_000_000, at: 999_990 })
    expect(await findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).toMatchObject({
      transactionHash: `0x${'ab'.repeat(32)}`,
    })
    expect(ranges).toEqual([[999_501, 1_000_000]])
  })

  it('covers the blocks behind without a gap, in growing ranges, a day back', async () => {
    const { rpc, ranges } = chainOf({ latest: 1_000_000, at: 1_000_000 - 43_200 })
    expect(await findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).toBeDefined()
    for (let index = 1; index < ranges.length; index++)
      expect(ranges[index]?.[1]).toBe((ranges[index - 1]?.[0] ?? 0) - 1)
    expect(ranges.length).toBeLessThan(12)
  })

  it('stops after a bounded number of blocks and requests', async () => {
    const wide = chainOf({ latest: 1_000_000 })
    expect(await findAuthorizationLog(authorization, { rpc: wide.rpc, window: createLogWindow() })).toBeUndefined()
    expect(wide.ranges.at(-1)?.[0]).toBe(950_000)
    const narrow = chainOf({ latest: 1_000_000, rangeMax: 10 })
    expect(await findAuthorizationLog(authorization, { rpc: narrow.rpc, window: createLogWindow() })).toBeUndefined()
    expect(narrow.ranges.length).toBeLessThanOrEqual(64)
  })

  it.each([10_000, 2_000, 1_000, 100, 10, 5])('finds its way with an RPC that allows %i blocks', async (rangeMax) => {
    const { rpc } = chainOf({ latest: 1_000_000, at: 999_985, rangeMax })
    expect(await findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).toBeDefined()
  })

  it('remembers the range an RPC allows', async () => {
    const window = createLogWindow()
    const { rpc } = chainOf({ latest: 1_000_000, at: 999_999, rangeMax: 50 })
    await findAuthorizationLog(authorization, { rpc, window })
    expect(window.blocksMax).toBeLessThanOrEqual(50)
    let refusals = 0
    const counting: Rpc = {
      call: (method, params) =>
        rpc.call(method, params).catch((error: unknown) => {
          refusals++
          throw error
        }),
    }
    await findAuthorizationLog(authorization, { rpc: counting, window })
    expect(refusals).toBe(0)
  })

  it('finds nothing, and says so, with an RPC that gives no logs at all', async () => {
    const { rpc } = chainOf({ latest: 1_000_000, at: 999_999, rangeMax: 0 })
    expect(await findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).toBeUndefined()
  })

  it('reaches block 0 of a young chain and stops there', async () => {
    const { rpc, ranges } = chainOf({ latest: 3 })
    expect(await findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).toBeUndefined()
    expect(ranges).toEqual([[0, 3]])
  })

  it.each([
    ['of another token', { address: '0x0000000000000000000000000000000000000001' }],
    ['of another payer', { topics: [eventTopics.authorizationUsed, `0x${'00'.repeat(32)}`, authorization.nonce] }],
    [
      'of another nonce',
      {
        topics: [
          eventTopics.authorizationUsed,
          authorizationTopics(authorization.from, authorization.nonce)[1],
          `0x${'43'.repeat(32)}`,
        ],
      },
    ],
    ['taken back by a reorganization', { removed: true }],
  ])('does not believe a log %s (T15)', async (_, change) => {
    const rpc: Rpc = { call: async (method) => (method === 'eth_blockNumber' ? '0x5' : [log(change)]) }
    expect(await findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).toBeUndefined()
  })

  it.each([null, 'logs', {}, [null], [{}], [log({ transactionHash: '0x12' })], [log({ logIndex: -1 })]])(
    'refuses %j as logs (T15)',
    async (answer) => {
      const rpc: Rpc = { call: async (method) => (method === 'eth_blockNumber' ? '0x5' : answer) }
      await expect(findAuthorizationLog(authorization, { rpc, window: createLogWindow() })).rejects.toMatchObject({
        code: 'CHAIN_UNAVAILABLE',
      })
    },
  )
})
