import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { batchSettlementAddress, channelCalls } from '../src/chain/batch-settlement.ts'
import { believedReader } from '../src/payments/channels/believed-reader.ts'
import { type ChannelStep, dataOf } from '../src/payments/channels/channel-steps.ts'
import {
  chargeCall,
  claimOf,
  openAtSeller,
  reserveCall,
  shortageOf,
  takeVoucher,
} from '../src/payments/channels/seller-channel.ts'
import { ChannelSeller } from '../test/support/channel-seller.ts'
import { refuse, startFaultyRpc } from '../test/support/faulty-rpc.ts'
import { randomHash, secondsFromNow } from '../test/support/signed-payment.ts'
import { until } from '../test/support/until.ts'
import { type Devnet, startDevnet } from './devnet.ts'

let devnet: Devnet
let seller: ChannelSeller

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(() => devnet.stop())
beforeEach(async () => {
  seller = await new ChannelSeller(devnet).start()
})
afterEach(async () => {
  await devnet.chain.setAutomine(true)
  await seller.stop()
})

const balance = async (config: ReturnType<ChannelSeller['config']>) => (await seller.channels.state(config)).balance

describe('a relay', () => {
  const never = new AbortController().signal

  it('offers channels by a facilitator or by own gas, and says what is missing otherwise', async () => {
    expect(await seller.relay().trouble(never)).toBeUndefined()
    expect(await seller.relay([]).trouble(never)).toMatch(/too little ETH for gas: this node offers no channels/)
    // One that is away may take channels: the operator needs no other one.
    const away = seller.relay(['http://127.0.0.1:9'])
    expect(await away.trouble(never)).toMatch(/^a facilitator of this node does not answer .* until it answers/)
    await seller.giveGas()
    expect(await seller.relay([]).trouble(never)).toBeUndefined()
  })

  it('offers none on a chain without the contract', async () => {
    const rpc = await startFaultyRpc(devnet.rpcUrl)
    const blind = await new ChannelSeller(devnet, rpc.url).start()
    rpc.fault = (call, response) => {
      if (call.method !== 'eth_getCode') return false
      response.end(JSON.stringify({ jsonrpc: '2.0', id: call.id, result: '0x' }))
      return true
    }
    expect(await blind.relay().trouble(never)).toContain(
      `no contract for payment channels at ${batchSettlementAddress}`,
    )
    await blind.stop()
    await rpc.stop()
  })
})

describe('a deposit', () => {
  it('goes by the facilitator, and counts when the chain shows it', async () => {
    const config = seller.config()
    const outcome = await seller.deposits().deposit(seller.request(config, 500n))
    expect(outcome).toMatchObject({ kind: 'landed', onChain: { balance: 500n, totalClaimed: 0n } })
    expect(seller.facilitator.settles()).toHaveLength(1)
  })

  it('goes by an own transaction without a facilitator, and one that is away costs no deposit', async () => {
    await seller.giveGas()
    const away = 'http://127.0.0.1:9'
    for (const urls of [[], [away]]) {
      const config = seller.config()
      const { kind } = await seller.deposits({ relay: seller.relay(urls) }).deposit(seller.request(config, 500n))
      expect(kind).toBe('landed')
      expect(await balance(config)).toBe(500n)
    }
  })

  it('asked for twice at once is sent once', async () => {
    const deposits = seller.deposits()
    const request = seller.request(seller.config(), 500n)
    const both = await Promise.all([deposits.deposit(request), deposits.deposit(request)])
    expect(both.map(({ kind }) => kind)).toEqual(['landed', 'landed'])
    expect(seller.facilitator.settles()).toHaveLength(1)
  })

  it('is refused before anything is sent', async () => {
    const deposits = seller.deposits()
    const reasonOf = async (request: Parameters<typeof deposits.deposit>[0]) => {
      const outcome = await deposits.deposit(request)
      return outcome.kind === 'refused' ? outcome.reason : outcome.kind
    }
    const config = seller.config()
    const ask: ChannelSeller['request'] = (...args) => seller.request(...args)
    expect(await reasonOf(ask(seller.config({ receiver: seller.channels.stranger.address }), 500n))).toMatch(
      'receiver is',
    )
    expect(await reasonOf(ask(config, 99n))).toBe('the deposit is 99, and must be at least 100')
    expect(await reasonOf(ask(config, 500n, { validBefore: secondsFromNow(-100) }))).toMatch('has ended')
    expect(await reasonOf(ask(config, 500n, { validAfter: secondsFromNow(1_000) }))).toMatch('not valid yet')
    const forged = { ...ask(config, 500n), voucher: seller.voucher(config, 500n, seller.channels.stranger) }
    expect(await reasonOf(forged)).toMatch('the voucher is signed by')
    expect(await reasonOf(ask(config, 10n ** 15n))).toMatch(/the chain refuses the deposit: .*exceeds balance/)
    const other = ask(config, 500n)
    expect(await reasonOf({ ...other, deposit: { ...other.deposit, amount: 501n } })).toMatch('the chain refuses')
    expect(seller.facilitator.calls).toEqual([])
    expect(await balance(config)).toBe(0n)
  })
})

describe('hazard 4.6: a facilitator that says too early that a deposit has landed', () => {
  it('is not believed, and the same authorization is sent again', async () => {
    seller.facilitator.faults.push({ kind: 'other-hash', transaction: randomHash() })
    const config = seller.config()
    const outcome = await seller.deposits().deposit(seller.request(config, 500n))
    expect(outcome.kind).toBe('landed')
    expect(seller.facilitator.settles()).toHaveLength(2)
    expect(await balance(config)).toBe(500n)
  })

  it('that never sends it leaves it pending, until another one does', async () => {
    seller.waits.shownMs = 100
    const lie = { kind: 'other-hash', transaction: randomHash() } as const
    seller.facilitator.faults.push(lie, lie, lie)
    const deposits = seller.deposits()
    const request = seller.request(seller.config(), 500n)
    expect(await deposits.deposit(request)).toMatchObject({
      kind: 'pending',
      reason: expect.stringContaining('the facilitator says that it is done'),
    })
    expect((await deposits.deposit(request)).kind).toBe('landed')
  })

  it('counts at the depth at which the seller believes, and not when a reorganization takes it back', async () => {
    const config = seller.config()
    let sent = 0
    // The account of the devnet's facilitator counts its own transactions, and would wait for the one that is gone.
    const send = async (step: ChannelStep) => {
      await seller.channels.send(seller.channels.stranger, dataOf(step))
      sent += 1
      return undefined
    }
    const deposits = seller.deposits({ depth: 2, relay: { ...seller.relay(), send } })
    const request = seller.request(config, 500n)
    const first = deposits.deposit(request)
    await until(() => sent === 1)
    await devnet.chain.client.request({ method: 'anvil_rollback', params: [1] } as never)
    await devnet.chain.mine(3)
    expect((await first).kind).toBe('pending')
    const second = deposits.deposit(request)
    await until(() => sent === 2)
    await devnet.chain.mine(2)
    expect(await second).toMatchObject({ kind: 'landed', onChain: { balance: 500n } })
  })

  it('that dies after it has sent costs nothing: the chain shows it', async () => {
    seller.facilitator.faults.push({ kind: 'drop', settles: true })
    const outcome = await seller.deposits().deposit(seller.request(seller.config(), 500n))
    expect(outcome.kind).toBe('landed')
    expect(seller.facilitator.settles()).toHaveLength(1)
  })

  it('that says pending is waited for', async () => {
    await devnet.chain.setAutomine(false)
    seller.facilitator.faults.push({ kind: 'pending' })
    seller.waits.shownMs = 5_000
    const config = seller.config()
    const request = seller.request(config, 500n)
    const outcome = seller.deposits().deposit(request)
    await until(() => seller.facilitator.settles().length === 1)
    const { stranger } = seller.channels
    const data = channelCalls.deposit(config, 500n, request.deposit.authorization)
    await devnet.chain.client.sendTransaction({ account: stranger, to: batchSettlementAddress, data, gas: 500_000n })
    await devnet.chain.mine()
    expect((await outcome).kind).toBe('landed')
    expect(seller.facilitator.settles()).toHaveLength(1)
  })
})

describe('hazard 4.6: a reading', () => {
  it('counts a deposit at its depth, and a withdrawal at once', async () => {
    const reader = believedReader(seller.reader, { chain: seller.chain, depth: 2 })
    const config = await seller.channels.open(500n, seller.config())
    const read = async () => (await reader.channels([seller.channels.id(config)]))[0]!
    expect(await read()).toMatchObject({ balance: 0n })
    await devnet.chain.mine(2)
    expect(await read()).toMatchObject({ balance: 500n, withdrawal: undefined })
    await seller.channels.send(seller.channels.payer, channelCalls.initiateWithdraw(config, 100n))
    expect(await read()).toMatchObject({ balance: 500n, withdrawal: { amount: 100n } })
  })
})

describe('hazard 4.14: somebody else sends the authorization first', () => {
  it('makes the same deposit, and "already used" is a question to the chain', async () => {
    const config = seller.config()
    const request = seller.request(config, 500n)
    const { authorization } = request.deposit
    await seller.channels.send(seller.channels.stranger, channelCalls.deposit(config, 500n, authorization))
    const outcome = await seller.deposits().deposit(request)
    expect(outcome).toMatchObject({ kind: 'landed', onChain: { balance: 500n } })
    expect(seller.facilitator.calls).toEqual([])
  })

  it('between the look and the sending, too', async () => {
    const config = seller.config()
    const request = seller.request(config, 500n)
    const { authorization } = request.deposit
    const data = channelCalls.deposit(config, 500n, authorization)
    const front = seller.channels.send(seller.channels.stranger, data)
    seller.facilitator.faults.push({ kind: 'late', until: front })
    expect(await seller.deposits().deposit(request)).toMatchObject({ kind: 'landed', onChain: { balance: 500n } })
  })

  it('by canceling it, and the deposit is refused', async () => {
    const { payer } = seller.channels
    const config = seller.config()
    const request = seller.request(config, 500n)
    const key = `0x${Buffer.from(payer.key).toString('hex')}` as const
    await devnet.chain.cancelAuthorization(key, request.deposit.authorization.nonce)
    const outcome = await seller.deposits().deposit(request)
    expect(outcome).toEqual({ kind: 'refused', reason: 'the payer has canceled the deposit' })
  })
})

describe('hazard 4.24: a top-up that fails', () => {
  it('leaves its voucher usable up to the balance that the chain shows', async () => {
    const config = await seller.channels.open(100n, seller.config())
    const id = seller.channels.id(config)
    let channel = takeVoucher(
      openAtSeller(id, config, await seller.channels.state(config)),
      seller.voucher(config, 600n),
    )
    expect((await seller.deposits().deposit(seller.request(config, 10n ** 15n))).kind).toBe('refused')
    expect(shortageOf(channel, 101n)).toBe('balance')
    channel = chargeCall(reserveCall(channel, 100n), { asked: 100n, amount: 100n }).channel
    expect(claimOf(channel)?.totalClaimed).toBe(100n)
  })
})

describe('hazard 4.17: the clocks', () => {
  it('of the chain decides whether an authorization has ended', async () => {
    const snapshot = await devnet.chain.client.snapshot()
    const request = seller.request(seller.config(), 500n, { validBefore: secondsFromNow(2_000) })
    await seller.channels.wait(3_000)
    expect(await seller.deposits().deposit(request)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('has ended'),
    })
    await devnet.chain.client.revert({ id: snapshot })
  })
})

it('says that a deposit is pending while the chain cannot be read', async () => {
  const rpc = await startFaultyRpc(devnet.rpcUrl)
  const blind = await new ChannelSeller(devnet, rpc.url).start()
  rpc.fault = (call, response) => refuse(response, call, 'rate limited', -32_005, 429)
  const outcome = await blind.deposits().deposit(blind.request(blind.config(), 500n))
  expect(outcome.kind).toBe('pending')
  expect(blind.facilitator.calls).toEqual([])
  await blind.stop()
  await rpc.stop()
})
