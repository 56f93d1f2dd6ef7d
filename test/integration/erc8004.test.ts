import { generatePrivateKey } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type DevChain, NETWORK, startChain } from '../../devnet/chain.ts'
import { addresses } from '../../devnet/contracts.ts'
import { type Chain, createChain } from '../../src/chain/chain.ts'
import { createErc8004, encodeRegister } from '../../src/chain/erc8004.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { createWallet, type Wallet } from '../../src/payments/wallet.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { createTransactions, type Transactions } from '../../src/store/transactions.ts'
import { createReputation, type ReputationDeps } from '../../src/trust/reputation.ts'
import { listingFixture } from '../support/fake-api.ts'
import { usdc } from '../support/payments.ts'
import { until } from '../support/until.ts'

let devChain: DevChain
let chain: Chain
beforeAll(async () => {
  devChain = await startChain()
  chain = createChain(
    { network: NETWORK, asset: addresses.usdc, rpcUrl: devChain.rpcUrl, timeoutMs: 30_000 },
    { logger: silentLogger },
  )
})
afterAll(() => devChain.stop())

const open = () => AbortSignal.timeout(20_000)
const agentId = 'agentagentagentagent234567agents'

/** A node's side of the registries. What it sends can be watched and lost on the way. */
class Party {
  readonly wallet: Wallet = createWallet(generatePrivateKey(), usdc)
  readonly database: Database = openDatabase({ path: ':memory:' })
  readonly sent: Hex[] = []
  readonly relisted: string[] = []
  readonly listings = new Map<string, Listing>()
  transactions: Transactions = createTransactions(this.database)
  calls = 1
  /** Stands between it and the chain. */
  intercept: ((method: string) => unknown) | undefined

  list(changes: Partial<Listing>): Listing {
    const listing = listingFixture({ id: agentId, local: true, pay_to: this.wallet.address, ...changes })
    this.listings.set(listing.id, listing)
    return listing
  }

  /** As after a start: only what is on disk is known. */
  reputation(changes: Partial<ReputationDeps> = {}) {
    this.transactions = createTransactions(this.database)
    const request: Chain['request'] = async (method, params, signal) => {
      if (method === 'eth_sendRawTransaction') this.sent.push(params[0] as Hex)
      await this.intercept?.(method)
      return chain.request(method, params, signal)
    }
    return createReputation({
      chain: { network: NETWORK, request },
      wallet: this.wallet,
      transactions: this.transactions,
      clock: systemClock,
      listing: (id) => this.listings.get(id),
      relist: async (id) => void this.relisted.push(id),
      calls: () => this.calls,
      imageOf: () => undefined,
      publicUrl: undefined,
      waits: { pollMs: 20 },
      ...changes,
    })
  }

  nonce = () => devChain.client.getTransactionCount({ address: this.wallet.address })
}

/** Somewhere else, where the node does not write it: then there is nothing to update after the mint. */
const kept = { uri: 'https://a.example/agent.json' }
const fileAt = async (tokenId: string) => (await createErc8004(chain).uri(BigInt(tokenId)))!
const read = (uri: string) => JSON.parse(Buffer.from(uri.split(',')[1]!, 'base64').toString())

let seller: Party
let buyer: Party
beforeEach(async () => {
  ;[seller, buyer] = [new Party(), new Party()]
  await Promise.all([seller, buyer].map(({ wallet }) => devChain.fundGas(wallet.address)))
  seller.list({})
})

describe('register-onchain', () => {
  test('mints the identity with its registration file, keeps the token and lists the agent again', async () => {
    const made = await seller.reputation().register(agentId, {}, open())
    expect(made).toMatchObject({ agent_id: agentId, network: NETWORK, registry: addresses.identityRegistry })
    const holders = await createErc8004(chain).holders(BigInt(made.token_id))
    expect(holders).toEqual({
      owner: seller.wallet.address.toLowerCase(),
      wallet: seller.wallet.address.toLowerCase(),
    })
    const uri = await fileAt(made.token_id)
    expect(uri).toBe(made.uri)
    const registrations = [
      { agentId: Number(made.token_id), agentRegistry: `${NETWORK}:${addresses.identityRegistry}` },
    ]
    expect(read(uri)).toMatchObject({ name: 'Summary', x402Support: true, active: true, registrations })
    expect(made).toMatchObject({ minted: true, update_tx_hash: expect.stringMatching(/^0x/) })
    expect(made.notice).toMatch(/names no A2A and no MCP service: set public_url/)
    expect(await seller.transactions.tokenOf(agentId, NETWORK)).toBe(made.token_id)
    expect(seller.relisted).toEqual([agentId])
    await expect(seller.reputation().register(agentId, {}, open())).rejects.toMatchObject({
      code: 'ALREADY_REGISTERED',
    })
    // The mint, and the token's id into the file.
    expect(await seller.nonce()).toBe(2)
  })

  test('asked again it updates a file that is no longer true, by one transaction', async () => {
    await seller.reputation().register(agentId, {}, open())
    const facts = { publicUrl: 'https://node.example', imageOf: () => 'https://node.example/a.png' }
    const again = await seller.reputation(facts).register(agentId, {}, open())
    expect(again).toMatchObject({ minted: false, token_id: await seller.transactions.tokenOf(agentId, NETWORK) })
    expect(again.notice).toBeUndefined()
    const file = read(await fileAt(again.token_id))
    expect(file).toMatchObject({ image: 'https://node.example/a.png', registrations: [{}] })
    expect(file.services.map(({ name }: { name: string }) => name)).toEqual(['A2A', 'MCP', 'DID', 'x402-libp2p'])
    expect(await seller.nonce()).toBe(3)
    const same = seller.reputation(facts).register(agentId, {}, open())
    await expect(same).rejects.toMatchObject({ code: 'ALREADY_REGISTERED' })
    expect(await seller.nonce()).toBe(3)
  })

  test('a file that is kept elsewhere is named by the mint alone, and replaced only by one that is named', async () => {
    const made = await seller.reputation().register(agentId, kept, open())
    expect([await fileAt(made.token_id), await seller.nonce()]).toEqual([kept.uri, 1])
    await expect(seller.reputation().register(agentId, {}, open())).rejects.toMatchObject({
      code: 'ALREADY_REGISTERED',
      message: expect.stringContaining(kept.uri),
    })
    const moved = await seller.reputation().register(agentId, { uri: 'ipfs://b' }, open())
    expect([moved.minted, await fileAt(made.token_id), await seller.nonce()]).toEqual([false, 'ipfs://b', 2])
  })

  test('a node that died between the mint and its file finishes the file, and mints no second token', async () => {
    const wallet = seller.wallet.address
    seller.intercept = async (method) => {
      if (method === 'eth_sendRawTransaction' && seller.sent.length === 2) throw new Error('killed')
    }
    await expect(seller.reputation().register(agentId, {}, open())).rejects.toThrow('killed')
    seller.intercept = undefined
    const made = await seller.reputation().register(agentId, {}, open())
    expect(read(await fileAt(made.token_id)).registrations).toMatchObject([{ agentId: Number(made.token_id) }])
    expect([made.minted, new Set(seller.sent).size, await seller.nonce()]).toEqual([false, 2, 2])
    expect((await createErc8004(chain).holders(BigInt(made.token_id)))?.owner).toBe(wallet.toLowerCase())
  })

  test('without ETH for the file it says that the token is minted; with it the file is finished', async () => {
    seller.intercept = async (method) => {
      if (method === 'eth_call') await devChain.fundGas(seller.wallet.address, 1n)
    }
    await expect(seller.reputation().register(agentId, {}, open())).rejects.toMatchObject({
      code: 'WALLET_NO_GAS',
      message: expect.stringMatching(/token \d+ is minted in 0x.*does not name it yet: .*then ask again/),
    })
    seller.intercept = undefined
    await devChain.fundGas(seller.wallet.address)
    expect(await seller.reputation().register(agentId, {}, open())).toMatchObject({ minted: false })
    expect(await seller.nonce()).toBe(2)
  })

  test('without ETH it says so, with the address, and sends nothing', async () => {
    await devChain.fundGas(seller.wallet.address, 0n)
    const refused = seller.reputation().register(agentId, {}, open())
    await expect(refused).rejects.toMatchObject({
      code: 'WALLET_NO_GAS',
      message: expect.stringMatching(new RegExp(`${seller.wallet.address} has 0 ETH.*send it some, nothing was sent`)),
    })
    await devChain.fundGas(seller.wallet.address, 1_000n)
    await expect(seller.reputation().register(agentId, {}, open())).rejects.toMatchObject({ code: 'WALLET_NO_GAS' })
    expect([seller.sent, await seller.nonce()]).toEqual([[], 0])
  })

  test('ether that is gone when the transaction leaves is asked for; with it the same transaction goes on', async () => {
    let isEmpty = false
    seller.intercept = async (method) => {
      if (method !== 'eth_sendRawTransaction' || isEmpty) return
      isEmpty = true
      await devChain.fundGas(seller.wallet.address, 1n)
    }
    const poor = seller.reputation().register(agentId, {}, open())
    await expect(poor).rejects.toMatchObject({ code: 'WALLET_NO_GAS' })
    await devChain.fundGas(seller.wallet.address)
    await seller.reputation().register(agentId, {}, open())
    // The mint, sent twice, and its file.
    expect([await seller.nonce(), new Set(seller.sent).size]).toEqual([2, 2])
  })

  test('two at once, and as many after, mint one token', async () => {
    const node = seller.reputation()
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => node.register(agentId, {}, open())))
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
    expect(await seller.nonce()).toBe(2)
  })

  test.each(['before it left', 'after it had left'])(
    'a node that died %s sends the same transaction again, and mints once',
    async (moment) => {
      let deaths = 0
      seller.intercept = async (method) => {
        const isMoment =
          moment === 'before it left'
            ? method === 'eth_sendRawTransaction'
            : method === 'eth_getTransactionReceipt' && seller.sent.length > 0
        if (!isMoment || deaths++ > 0) return
        throw new Error('killed')
      }
      await expect(seller.reputation().register(agentId, {}, open())).rejects.toThrow('killed')
      const made = await seller.reputation().register(agentId, {}, open())
      expect(new Set(seller.sent).size).toBe(2)
      expect([await seller.nonce(), await seller.transactions.tokenOf(agentId, NETWORK)]).toEqual([2, made.token_id])
    },
  )

  test('asked again with another file, it goes on with the mint of the first, mints no second token and names the other', async () => {
    let deaths = 0
    seller.intercept = async (method) => {
      if (method === 'eth_sendRawTransaction' && deaths++ === 0) throw new Error('killed')
    }
    await seller
      .reputation()
      .register(agentId, {}, open())
      .catch(() => {})
    const again = await seller.reputation().register(agentId, kept, open())
    expect(again).toMatchObject({ minted: false, token_id: await seller.transactions.tokenOf(agentId, NETWORK) })
    expect([await fileAt(again.token_id), await seller.nonce()]).toEqual([kept.uri, 2])
  })

  test('the token of a transaction whose node died is not lost to the next one of another agent', async () => {
    let deaths = 0
    seller.intercept = async (method) => {
      if (method === 'eth_getTransactionReceipt' && seller.sent.length > 0 && deaths++ === 0) throw new Error('killed')
    }
    await seller
      .reputation()
      .register(agentId, {}, open())
      .catch(() => {})
    const other = seller.list({ id: 'otheragent234567otheragent234567' })
    await seller.reputation().register(other.id, {}, open())
    const tokens = await Promise.all([agentId, other.id].map((id) => seller.transactions.tokenOf(id, NETWORK)))
    expect(Number(tokens[1])).toBe(Number(tokens[0]) + 1)
  })

  test('a transaction that is not mined in time is waited for by the next call', async () => {
    await devChain.setAutomine(false)
    try {
      const first = seller.reputation({ waits: { waitMs: 200, pollMs: 20 } }).register(agentId, kept, open())
      await expect(first).rejects.toMatchObject({ code: 'TRANSACTION_PENDING' })
      const second = seller.reputation().register(agentId, kept, open())
      await devChain.mine()
      expect((await second).token_id).toMatch(/^\d+$/)
      expect([await seller.nonce(), new Set(seller.sent).size]).toEqual([1, 1])
    } finally {
      await devChain.setAutomine(true)
    }
  })

  test('whose place another transaction took is given up, and the next call makes a new one', async () => {
    let deaths = 0
    seller.intercept = async (method) => {
      if (method === 'eth_sendRawTransaction' && deaths++ === 0) throw new Error('killed')
    }
    await seller
      .reputation()
      .register(agentId, kept, open())
      .catch(() => {})
    const other = seller.wallet.signTransaction({
      ...{ chainId: 84532, accountNonce: 0, gas: 100_000n, to: buyer.wallet.address, value: 0n, data: '0x' },
      ...{ maxPriorityFeePerGas: 10n ** 9n, maxFeePerGas: 10n ** 11n },
    })
    await chain.request('eth_sendRawTransaction', [other.raw])
    await expect(seller.reputation().register(agentId, kept, open())).rejects.toMatchObject({
      code: 'TRANSACTION_LOST',
    })
    await seller.reputation().register(agentId, kept, open())
    expect(await seller.nonce()).toBe(2)
  })
})

describe('reputation and feedback', () => {
  /** The seller's agent as the buyer knows it. */
  async function listed(changes: Partial<Listing> = {}) {
    const { token_id } = await seller.reputation().register(agentId, {}, open())
    return buyer.list({ local: false, pay_to: seller.wallet.address, token_id, ...changes })
  }

  test('what the buyer gives is what everybody reads', async () => {
    const listing = await listed()
    const unrated = await buyer.reputation().read(BigInt(listing.token_id!))
    expect(unrated).toMatchObject({ token_id: listing.token_id, count: 0, score: null, value: '0', decimals: 0 })
    const given = await buyer.reputation().rate(agentId, { score: 93.25, tag1: 'fast' }, open())
    expect(given).toMatchObject({ score: 93.25, token_id: listing.token_id, registry: addresses.reputationRegistry })
    expect(await seller.reputation().read(BigInt(listing.token_id!))).toEqual({
      token_id: listing.token_id,
      network: NETWORK,
      registry: addresses.reputationRegistry,
      count: 1,
      score: 93.25,
      value: '9325',
      decimals: 2,
    })
    expect(await buyer.reputation().ofListing(listing)).toMatchObject({ count: 1, score: 93.25 })
  })

  test('a listing that names a token of somebody else gets nothing of it: not shown, not rated', async () => {
    const stolen = await listed({ pay_to: buyer.wallet.address })
    expect(await buyer.reputation().ofListing(stolen)).toBeUndefined()
    const rated = buyer.reputation().rate(agentId, { score: 100 }, open())
    await expect(rated).rejects.toMatchObject({ code: 'UNKNOWN_IDENTITY' })
    expect(buyer.sent).toEqual([])
  })

  test.each([
    ['an agent that was never called', () => listed(), 'NEVER_CALLED', 0],
    ['an agent of its own', () => listed({ local: true }), 'OWN_AGENT', 1],
    ['an agent without a token', async () => buyer.list({ local: false }), 'UNKNOWN_IDENTITY', 1],
    ['an unknown agent', async () => {}, 'UNKNOWN_AGENT', 1],
  ])('%s is not rated', async (_about, prepare, code, calls) => {
    await prepare()
    buyer.calls = calls
    await expect(buyer.reputation().rate(agentId, { score: 50 }, open())).rejects.toMatchObject({ code })
    expect(buyer.sent).toEqual([])
  })

  test('what the contract refuses is told with its reason and costs nothing', async () => {
    await listed()
    // The buyer's own token, under the buyer's own account: self-feedback.
    const own = createErc8004(chain)
    expect((await own.holders(0n))?.owner).toMatch(/^0x/)
    const selfish = new Party()
    Object.assign(selfish, { wallet: seller.wallet })
    selfish.list({ local: false, token_id: buyer.listings.get(agentId)!.token_id, pay_to: seller.wallet.address })
    await expect(selfish.reputation().rate(agentId, { score: 100 }, open())).rejects.toMatchObject({
      code: 'TRANSACTION_REVERTED',
      message: expect.stringContaining('Self-feedback not allowed'),
    })
    expect(selfish.sent).toEqual([])
  })

  test('D21: an unknown token is unknown; the first is 0', async () => {
    await expect(buyer.reputation().read(2n ** 255n)).rejects.toMatchObject({ code: 'UNKNOWN_IDENTITY' })
    expect(encodeRegister('')).toMatch(/^0xf2c298be/)
    expect(await buyer.reputation().read(0n)).toMatchObject({ token_id: '0' })
  })
})

describe('a transaction that does not go on (T13)', () => {
  /** Sent, and not mined. */
  async function stuck(): Promise<Hex> {
    await devChain.setAutomine(false)
    const first = seller.reputation({ waits: { waitMs: 100, pollMs: 20 } }).register(agentId, kept, open())
    await expect(first).rejects.toMatchObject({
      code: 'TRANSACTION_PENDING',
      message: expect.stringMatching(/stoa transaction replace 0x[0-9a-f]{64} pays more, stoa transaction abandon/),
    })
    return (await seller.transactions.open(NETWORK, seller.wallet.address))[0]!.hash
  }
  afterEach(() => devChain.setAutomine(true))

  test('whose receipt comes late is not called lost: nothing is sent again', async () => {
    const mined = Date.now()
    const node = seller.reputation({
      chain: {
        network: NETWORK,
        request: async (method, params, signal) => {
          if (method === 'eth_sendRawTransaction') seller.sent.push(params[0] as Hex)
          const isLate = method === 'eth_getTransactionReceipt' && Date.now() - mined < 1_500
          return isLate ? null : chain.request(method, params, signal)
        },
      },
    })
    await node.register(agentId, kept, open())
    expect([new Set(seller.sent).size, await seller.nonce()]).toEqual([1, 1])
  })

  test('is replaced by one that pays more, with the same account nonce: it mints once', async () => {
    const hash = await stuck()
    const node = seller.reputation()
    const replaced = node.transactions.replace(hash, open())
    await until(() => seller.sent.length > 1)
    await devChain.mine()
    expect((await replaced).hash).not.toBe(hash)
    expect(await node.transactions.open()).toEqual([])
    expect([await seller.nonce(), await seller.transactions.tokenOf(agentId, NETWORK)]).toEqual([1, expect.any(String)])
  })

  test('is replaced while its caller waits: the caller is told of the one that was mined', async () => {
    await devChain.setAutomine(false)
    const gate = Promise.withResolvers<void>()
    let [isShut, isWaiting] = [false, false]
    const request: Chain['request'] = async (method, params, signal) => {
      if (isShut && method === 'eth_getTransactionReceipt') {
        isWaiting = true
        await gate.promise
      }
      return chain.request(method, params, signal)
    }
    const registered = seller.reputation({ chain: { network: NETWORK, request } }).register(agentId, kept, open())
    const { hash } = await until(async () => (await seller.transactions.open(NETWORK, seller.wallet.address))[0])
    isShut = true
    await until(() => isWaiting)
    const replaced = seller.reputation().transactions.replace(hash, open())
    await until(() => seller.sent.length > 0)
    await devChain.mine()
    const instead = await replaced
    gate.resolve()
    expect(await registered).toMatchObject({ minted: true, tx_hash: instead.hash, token_id: expect.any(String) })
  })

  test('is abandoned: nothing happens in its place, and the account goes on', async () => {
    const hash = await stuck()
    const node = seller.reputation()
    const abandoned = node.transactions.abandon(hash, open())
    await until(() => seller.sent.length > 1)
    await devChain.mine()
    await abandoned
    expect([await node.transactions.open(), await seller.transactions.tokenOf(agentId, NETWORK)]).toEqual([
      [],
      undefined,
    ])
    await devChain.setAutomine(true)
    await node.register(agentId, kept, open())
    expect(await seller.nonce()).toBe(2)
  })

  test('that waits behind a dropped transaction of another program goes on: the gap is filled', async () => {
    const node = seller.reputation({
      waits: { waitMs: 200, pollMs: 20 },
      chain: {
        network: NETWORK,
        request: async (method, params, signal) => {
          if (method === 'eth_getTransactionCount' && params[1] === 'pending' && seller.sent.length === 0) return '0x1'
          if (method === 'eth_sendRawTransaction') seller.sent.push(params[0] as Hex)
          return chain.request(method, params, signal)
        },
      },
    })
    await expect(node.register(agentId, kept, open())).rejects.toMatchObject({ code: 'TRANSACTION_PENDING' })
    const [{ hash, accountNonce } = {}] = await node.transactions.open()
    expect(accountNonce).toBe(1)
    await seller.reputation().transactions.replace(hash!, open())
    expect([await seller.nonce(), await seller.transactions.tokenOf(agentId, NETWORK)]).toEqual([2, expect.any(String)])
  })

  test.each([
    ['fewer with those that wait than without', { latest: '0x5', pending: '0x1' }],
    ['a thousand that wait', { latest: '0x0', pending: '0x3e8' }],
  ])('is not made for an account of which the RPC counts %s', async (_what, counts) => {
    const node = seller.reputation({
      chain: {
        network: NETWORK,
        request: async (method, params, signal) => {
          if (method === 'eth_sendRawTransaction') seller.sent.push(params[0] as Hex)
          if (method === 'eth_getTransactionCount') return counts[params[1] as 'latest' | 'pending']
          return chain.request(method, params, signal)
        },
      },
    })
    await expect(node.register(agentId, kept, open())).rejects.toMatchObject({ code: 'CHAIN_UNAVAILABLE' })
    expect([seller.sent, await node.transactions.open()]).toEqual([[], []])
  })

  test('is not made below the fee that the chain asks for, whatever a block says', async () => {
    const node = seller.reputation({
      chain: {
        network: NETWORK,
        request: async (method, params, signal) => {
          const answer = await chain.request(method, params, signal)
          return method === 'eth_getBlockByNumber' ? { ...(answer as object), baseFeePerGas: '0x0' } : answer
        },
      },
    })
    await node.register(agentId, kept, open())
    expect(await seller.nonce()).toBe(1)
  })

  test('that nobody knows is told as unknown', async () => {
    const unknown = seller.reputation().transactions.replace(`0x${'ab'.repeat(32)}`, open())
    await expect(unknown).rejects.toMatchObject({ code: 'TRANSACTION_UNKNOWN' })
  })
})
