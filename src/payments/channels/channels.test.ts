import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { smallest } from '../../lib/bigints.ts'
import type { ChannelConfig, SignedVoucher } from '../../schema/channel.ts'
import type { Hex } from '../../schema/primitives.ts'
import {
  adoptStatement,
  atRisk,
  type BuyerChannel,
  countCharge,
  dropCall,
  growCall,
  openAtBuyer,
  planCalls,
  raiseMark,
  reopenAtBuyer,
  seenByBuyer,
  sendCalls,
} from './buyer-channel.ts'
import {
  type ChannelRefund,
  type Charge,
  chargeCall,
  claimOf,
  openAtSeller,
  refundableOf,
  releaseCall,
  reserveCall,
  type SellerChannel,
  seenOnChain,
  shortageOf,
  signRefund,
  spendableOf,
  takeCount,
  takeVoucher,
  unclaimedOf,
} from './seller-channel.ts'

const id: Hex = `0x${'c1'.repeat(32)}`
const DELAY = 900
const account = (byte: string): Hex => `0x${byte.repeat(20)}`
const config: ChannelConfig = {
  ...{
    payer: account('01'),
    payerAuthorizer: account('02'),
    receiver: account('03'),
    receiverAuthorizer: account('04'),
  },
  ...{ token: account('05'), withdrawDelay: DELAY, salt: `0x${'00'.repeat(32)}` },
}
const onChain = (balance: bigint, totalClaimed = 0n) => ({
  balance,
  totalClaimed,
  withdrawal: undefined,
  refundNonce: 0n,
})
const voucherOf = (ceiling: bigint): SignedVoucher => ({
  ...{ channelId: id, maxClaimableAmount: ceiling, signature: `0x${'5a'.repeat(65)}` },
})

/** `sent`: the number of the request that it was sent by last. */
type Order = { asked: bigint; state: 'open' | 'dropped' | 'done'; sent: number }
type Request = { no: number; calls: [string, bigint][]; voucher: SignedVoucher; count: { total: bigint; seq: number } }
/** `to`: the request that it answers. */
type Answer = { call: string; charge: Charge | undefined; to: number }

/** A buyer, a seller and the contract, with a network that loses and reorders, and disks that survive. */
class World {
  balance: bigint
  totalClaimed = 0n
  withdrawal: { amount: bigint; initiatedAt: number } | undefined
  now = 0
  /** Claims and withdrawals, newest last: what a reorganization takes back. */
  history: { balance: bigint; totalClaimed: bigint; withdrawal: World['withdrawal']; refundNonce: bigint }[] = []
  refundNonce = 0n
  /** Refunds that the seller has signed. Anyone may send them, at any time. */
  readonly refunds: ChannelRefund[] = []

  readonly orders = new Map<string, Order>()
  buyer: BuyerChannel
  buyerDisk: BuyerChannel
  seller: SellerChannel
  sellerDisk: SellerChannel
  readonly running = new Map<string, bigint>()
  /** By which request each call was begun. */
  readonly begunBy = new Map<string, number>()
  #requests = 0
  /** The last request by which each call has arrived. */
  readonly #arrived = new Map<string, number>()
  /** What the seller has delivered, with its charge. On its disk. */
  readonly results = new Map<string, Charge>()
  readonly requests: Request[] = []
  readonly answers: Answer[] = []
  highestSigned = 0n
  mostAtOnce = 0n
  readonly ahead: bigint

  constructor(balance: bigint, ahead: bigint) {
    this.balance = balance
    this.ahead = ahead
    this.buyer = openAtBuyer(id, config, this.chain())
    this.buyerDisk = this.buyer
    this.seller = openAtSeller(id, config, this.chain())
    this.sellerDisk = this.seller
  }

  chain() {
    const { balance, totalClaimed, withdrawal, refundNonce } = this
    return { balance, totalClaimed, withdrawal, refundNonce }
  }

  /** Sends new calls, or open ones once more. */
  send(calls: [string, bigint][], isResend = false): boolean {
    const plan = planCalls(this.buyer, isResend ? [] : calls.map(([, asked]) => asked), this.ahead)
    if (!plan.ok) return false
    if ('ceiling' in plan && plan.mark !== undefined) {
      this.buyer = raiseMark(this.buyer, plan.mark)
      this.buyerDisk = raiseMark(this.buyerDisk, plan.mark)
    }
    const voucher = 'voucher' in plan ? plan.voucher : voucherOf(plan.ceiling)
    if (voucher.maxClaimableAmount > this.highestSigned) this.highestSigned = voucher.maxClaimableAmount
    this.buyer = sendCalls(this.buyer, isResend ? [] : calls.map(([id, asked]) => ({ id, asked })), voucher)
    for (const [call, asked] of calls) this.orders.set(call, { asked, state: 'open', sent: 0 })
    const no = this.#number(calls)
    const { sum } = this.buyer.inFlight
    if (sum > this.mostAtOnce) this.mostAtOnce = sum
    this.buyerDisk = { ...this.buyerDisk, inFlight: this.buyer.inFlight }
    const { charged: total, seq } = this.buyer
    this.requests.push({ no, calls, voucher, count: { total, seq } })
    return true
  }

  /** Only the answer to the last request with a call is waited for. */
  #number(calls: [string, bigint][]): number {
    const no = ++this.#requests
    for (const [call] of calls) this.orders.get(call)!.sent = no
    return no
  }

  /** A request arrives. */
  arrive({ no, calls, voucher, count }: Request): void {
    this.seller = takeCount(takeVoucher(this.seller, voucher), count)
    for (const [call, asked] of calls) {
      // A buyer ends the stream of a call before it sends the call again: what came by that stream is canceled.
      if (no < (this.#arrived.get(call) ?? 0)) continue
      this.#arrived.set(call, no)
      const charge = this.results.get(call)
      if (charge !== undefined) this.answers.push({ call, charge, to: no })
      else if (this.running.has(call)) continue
      else if (shortageOf(this.seller, asked) === undefined) {
        this.seller = reserveCall(this.seller, asked)
        this.running.set(call, asked)
        this.begunBy.set(call, no)
      } else this.answers.push({ call, charge: undefined, to: no })
    }
  }

  finish(call: string, part: number): void {
    const asked = this.running.get(call)!
    const to = this.begunBy.get(call)!
    this.running.delete(call)
    if (part < 0) {
      this.seller = releaseCall(this.seller, asked)
      this.answers.push({ call, charge: undefined, to })
      return
    }
    const { channel, charge } = chargeCall(this.seller, { asked, amount: (asked * BigInt(part)) / 10n })
    this.seller = channel
    this.sellerDisk = { ...channel, asked: 0n }
    this.results.set(call, charge)
    this.answers.push({ call, charge, to })
  }

  hear({ call, charge, to }: Answer): void {
    const order = this.orders.get(call)!
    // A buyer asks for a call again after it has lost the answer of before. That a call was refused then says nothing of now.
    if (order.state === 'done' || (charge === undefined && to !== order.sent)) return
    if (charge === undefined) {
      this.buyer = dropCall(this.buyer, call)
      order.state = 'dropped'
    } else {
      this.buyer = countCharge(this.buyer, { call, asked: order.asked, charge })
      order.state = 'done'
    }
    this.buyerDisk = { ...this.buyer, signed: this.buyerDisk.signed, mark: this.buyerDisk.mark }
  }

  claim(): void {
    this.seller = seenOnChain(this.seller, this.chain())
    const claim = claimOf(this.seller)
    if (claim === undefined) return
    // What the contract checks.
    expect(claim.totalClaimed).toBeLessThanOrEqual(this.balance)
    expect(claim.totalClaimed).toBeLessThanOrEqual(claim.voucher.maxClaimableAmount)
    this.#remember()
    this.totalClaimed = claim.totalClaimed
    this.seller = seenOnChain(this.seller, this.chain())
  }

  initiate(part: number): void {
    const amount = ((this.balance - this.totalClaimed) * BigInt(part)) / 10n
    if (this.withdrawal !== undefined || amount === 0n) return
    this.#remember()
    this.withdrawal = { amount, initiatedAt: this.now }
  }

  finalize(): void {
    if (this.withdrawal === undefined || this.now < this.withdrawal.initiatedAt + DELAY) return
    const free = this.balance - this.totalClaimed
    this.balance -= smallest(this.withdrawal.amount, free)
    this.withdrawal = undefined
    this.history.length = 0
  }

  agreeToRefund(wanted: bigint): void {
    const signed = signRefund(this.seller, { wanted, amountMin: 1n })
    if (signed === undefined) return
    this.seller = signed.channel
    this.sellerDisk = { ...this.sellerDisk, refund: signed.refund }
    this.refunds.push(signed.refund)
  }

  /** What the contract does with a signed refund, without the claim that travels with it. */
  refund(at: number): void {
    const { nonce, amount } = this.refunds[at % this.refunds.length]!
    if (nonce !== this.refundNonce) return
    this.#remember()
    this.refundNonce += 1n
    const paid = smallest(amount, this.balance - this.totalClaimed)
    this.balance -= paid
    const { withdrawal } = this
    if (withdrawal === undefined) return
    const left = withdrawal.amount - paid
    this.withdrawal = left > 0n ? { ...withdrawal, amount: left } : undefined
  }

  reorganize(): void {
    const before = this.history.pop()
    if (before !== undefined) Object.assign(this, before)
  }

  #remember(): void {
    this.history.push(this.chain())
  }

  restartBuyer(): void {
    this.buyer = reopenAtBuyer(this.buyerDisk)
  }

  restartSeller(): void {
    this.running.clear()
    this.seller = this.sellerDisk
  }

  delivered(): bigint {
    return this.results.values().reduce((sum, { amount }) => sum + amount, 0n)
  }

  /** What holds after each step, whatever happened. */
  check(): void {
    expect(this.seller.charged, 'the seller counts what it delivered').toBe(this.delivered())
    expect(this.totalClaimed, 'nothing is claimed that was not delivered').toBeLessThanOrEqual(this.delivered())
    expect(this.seller.charged).toBeLessThanOrEqual(this.seller.best?.maxClaimableAmount ?? 0n)
    expect(this.buyer.charged, 'the buyer counts nothing that was not delivered').toBeLessThanOrEqual(this.delivered())
    expect(this.highestSigned, 'nothing is signed above the mark on disk').toBeLessThanOrEqual(this.buyerDisk.mark)
    expect(this.buyer.stopped, 'honest sellers are never distrusted').toBeUndefined()
    const amounts = new Map(this.refunds.map(({ nonce, amount }) => [nonce, amount]))
    const isOne = this.refunds.every(({ nonce, amount }) => amounts.get(nonce) === amount)
    expect(isOne, 'no two amounts are signed for one nonce of a refund').toBe(true)
    const asked = this.running.values().reduce((a, b) => a + b, 0n)
    expect(this.seller.asked).toBe(asked)
    expect(atRisk({ signed: this.highestSigned, charged: this.delivered() })).toBeLessThanOrEqual(
      this.mostAtOnce + this.ahead,
    )
  }

  /** Lets all that is open come to its end. */
  settle(): void {
    for (let turn = 0; turn < 100; turn += 1) {
      for (const request of this.requests.splice(0)) this.arrive(request)
      for (const call of [...this.running.keys()]) this.finish(call, 7)
      for (const answer of this.answers.splice(0)) this.hear(answer)
      const open = [...this.orders].filter(([call, { state }]) => state === 'open' || this.results.has(call))
      const lost = open.filter(([, { state }]) => state !== 'done')
      if (lost.length === 0) return
      const calls = lost.map(([call, { asked }]): [string, bigint] => [call, asked])
      // An open call is asked for again. If it was given up and ran all the same, its result is asked for.
      if (!this.send(calls, true))
        this.arrive({ no: this.#number(calls), calls, voucher: voucherOf(0n), count: { total: 0n, seq: 0 } })
    }
    expect.unreachable('something stays open')
  }
}

const amount = fc.integer({ min: 1, max: 50 })
const pick = fc.nat()
const step = fc.oneof(
  fc.record({ do: fc.constant('call' as const), asked: fc.array(amount, { minLength: 1, maxLength: 4 }) }),
  fc.record({ do: fc.constantFrom('arrive' as const, 'hear' as const, 'resend' as const), pick }),
  fc.record({ do: fc.constant('finish' as const), pick, part: fc.integer({ min: -1, max: 10 }) }),
  fc.record({ do: fc.constantFrom('lose request' as const, 'lose answer' as const), pick }),
  fc.record({ do: fc.constantFrom('claim' as const, 'reorganize' as const) }),
  fc.record({ do: fc.constantFrom('restart buyer' as const, 'restart seller' as const, 'look' as const) }),
  fc.record({ do: fc.constant('deposit' as const), amount }),
  fc.record({ do: fc.constant('agree to refund' as const), amount }),
  fc.record({ do: fc.constant('refund' as const), pick }),
  fc.record({ do: fc.constant('initiate' as const), part: fc.integer({ min: 1, max: 10 }) }),
  fc.record({ do: fc.constant('finalize' as const), seconds: fc.integer({ min: 0, max: 2 * DELAY }) }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

function take<T>(from: T[], at: number): T | undefined {
  return from.length === 0 ? undefined : from.splice(at % from.length, 1)[0]
}

let calls = 0
function apply(world: World, it: Step): void {
  if (it.do === 'call') world.send(it.asked.map((asked) => [`call ${calls++}`, BigInt(asked)]))
  else if (it.do === 'arrive') {
    const request = take(world.requests, it.pick)
    if (request !== undefined) world.arrive(request)
  } else if (it.do === 'hear') {
    const answer = take(world.answers, it.pick)
    if (answer !== undefined) world.hear(answer)
  } else if (it.do === 'resend') {
    const open = [...world.orders].filter(([, { state }]) => state === 'open')
    const one = take(open, it.pick)
    if (one !== undefined) world.send([[one[0], one[1].asked]], true)
  } else if (it.do === 'finish') {
    const call = take([...world.running.keys()], it.pick)
    if (call !== undefined) world.finish(call, it.part)
  } else if (it.do === 'lose request') take(world.requests, it.pick)
  else if (it.do === 'lose answer') take(world.answers, it.pick)
  else if (it.do === 'claim') world.claim()
  else if (it.do === 'reorganize') world.reorganize()
  else if (it.do === 'restart buyer') world.restartBuyer()
  else if (it.do === 'restart seller') world.restartSeller()
  else if (it.do === 'deposit') world.balance += BigInt(it.amount)
  else if (it.do === 'initiate') world.initiate(it.part)
  else if (it.do === 'agree to refund') world.agreeToRefund(BigInt(it.amount))
  else if (it.do === 'refund') {
    if (world.refunds.length > 0) world.refund(it.pick)
  } else if (it.do === 'finalize') {
    world.now += it.seconds
    world.finalize()
  }
  world.buyer = seenByBuyer(world.buyer, world.chain())
}

describe('any interleaving of calls, losses, restarts, claims, withdrawals and reorganizations', () => {
  test('keeps the sums of both sides, the disk and the chain in order', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), fc.integer({ min: 0, max: 60 }), (steps, ahead) => {
        const world = new World(300n, BigInt(ahead))
        for (const it of steps) {
          apply(world, it)
          world.seller = seenOnChain(world.seller, world.chain())
          world.check()
        }
        world.settle()
        world.check()
        expect(world.buyer.charged).toBe(world.seller.charged)
        expect(world.buyer.inFlight.size).toBe(0)
      }),
      { numRuns: 400 },
    )
  })

  test('a seller that looks within the delay, and claims when it sees a withdrawal, is paid for all that it delivered', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const world = new World(300n, 20n)
        for (const it of steps) {
          // Between the withdrawal and its end the chain is looked at, and it takes nothing back so late.
          if (it.do === 'reorganize') continue
          if (it.do === 'finalize') {
            for (const call of [...world.running.keys()]) world.finish(call, 10)
            world.claim()
          }
          apply(world, it)
          world.seller = seenOnChain(world.seller, world.chain())
        }
        world.settle()
        world.claim()
        expect(world.totalClaimed).toBe(world.delivered())
        expect(unclaimedOf(world.seller)).toBe(0n)
      }),
      { numRuns: 300 },
    )
  })
})

/** A seller that has a voucher up to `ceiling`. */
function sellerWith(ceiling: bigint, balance = 100n): SellerChannel {
  return takeVoucher(openAtSeller(id, config, onChain(balance)), voucherOf(ceiling))
}

/** A buyer with one call of 10 in flight, and a mark of 10. */
function buyerInFlight(): BuyerChannel {
  const buyer = raiseMark(openAtBuyer(id, config, onChain(100n)), 10n)
  return sendCalls(buyer, [{ id: 'a', asked: 10n }], voucherOf(10n))
}

describe('the seller', () => {
  test('says what is short', () => {
    expect(shortageOf(sellerWith(10n), 10n)).toBeUndefined()
    expect(shortageOf(sellerWith(10n), 11n)).toBe('voucher')
    expect(shortageOf(sellerWith(200n), 101n)).toBe('balance')
    const leaving = { ...onChain(100n), withdrawal: { amount: 95n, initiatedAt: 1 } }
    expect(shortageOf(seenOnChain(sellerWith(200n), leaving), 5n)).toBeUndefined()
    expect(shortageOf(seenOnChain(sellerWith(200n), leaving), 6n)).toBe('withdrawal')
    expect(() => reserveCall(sellerWith(10n), 11n)).toThrow('short: voucher')
  })

  test('keeps the highest voucher, and never charges more than was asked', () => {
    expect(takeVoucher(sellerWith(10n), voucherOf(9n)).best?.maxClaimableAmount).toBe(10n)
    const running = reserveCall(sellerWith(10n), 10n)
    expect(() => chargeCall(running, { asked: 10n, amount: 11n })).toThrow('cannot be charged 11')
    expect(() => chargeCall(running, { asked: 10n, amount: -1n })).toThrow('cannot be charged -1')
  })

  test('claims what is left where a withdrawal has taken more than was free', () => {
    const { channel } = chargeCall(reserveCall(sellerWith(60n), 60n), { asked: 60n, amount: 60n })
    expect(claimOf(channel)).toMatchObject({ totalClaimed: 60n, voucher: { maxClaimableAmount: 60n } })
    const left = seenOnChain(channel, onChain(40n))
    expect(claimOf(left)).toMatchObject({ totalClaimed: 40n })
    expect(claimOf(seenOnChain(left, onChain(40n, 40n)))).toBeUndefined()
    expect(unclaimedOf(channel)).toBe(60n)
  })

  test('gives back only what no charge and no call needs', () => {
    const { channel } = chargeCall(reserveCall(sellerWith(90n), 30n), { asked: 30n, amount: 30n })
    expect(refundableOf(reserveCall(channel, 20n))).toBe(50n)
    expect(refundableOf(seenOnChain(channel, onChain(20n)))).toBe(0n)
  })

  test('takes a signed refund for gone, and signs no other amount until the chain has it', () => {
    const all = { amountMin: 1n }
    const first = signRefund(sellerWith(90n), { wanted: 40n, amountMin: 40n })!
    expect(first.refund).toEqual({ nonce: 0n, amount: 40n })
    expect(spendableOf(first.channel)).toBe(60n)
    expect(signRefund(first.channel, all)).toEqual(first)
    const paid = seenOnChain(first.channel, { ...onChain(60n), refundNonce: 1n })
    expect(spendableOf(paid)).toBe(60n)
    const second = signRefund(paid, all)!
    expect(second.refund).toEqual({ nonce: 1n, amount: 60n })
    expect(signRefund(seenOnChain(second.channel, { ...onChain(60n), refundNonce: 1n }), all)!.refund).toEqual(
      second.refund,
    )
    expect(signRefund(seenOnChain(paid, { ...onChain(0n), refundNonce: 1n }), all)).toBeUndefined()
    expect(signRefund(sellerWith(90n), { amountMin: 101n })).toBeUndefined()
  })

  test('sells nothing and signs no refund while a reorganization has taken back more than one', () => {
    const all = { amountMin: 1n }
    const first = signRefund(sellerWith(90n), { ...all, wanted: 40n })!
    const second = signRefund(seenOnChain(first.channel, { ...onChain(60n), refundNonce: 1n }), {
      ...all,
      wanted: 30n,
    })!
    const calling = takeVoucher(second.channel, voucherOf(100n))
    expect(shortageOf(calling, 30n)).toBeUndefined()
    // Anyone can send both again, and what the first one named is forgotten: no call may count on any of it.
    const before = seenOnChain(calling, onChain(100n))
    expect(shortageOf(before, 1n)).toBe('withdrawal')
    // A signature for the first number would be a second amount for it, and one for the second is refused by the contract.
    expect(signRefund(before, all)).toBeUndefined()
    const again = seenOnChain(before, { ...onChain(60n), refundNonce: 1n })
    expect(signRefund(again, all)!.refund).toEqual({ nonce: 1n, amount: 30n })
    expect(shortageOf(again, 30n)).toBeUndefined()
    expect(shortageOf(again, 31n)).toBe('withdrawal')
  })

  test('that has lost records takes what the chain and an honest buyer know of them', () => {
    const restored = seenOnChain(sellerWith(80n), onChain(100n, 30n))
    expect(restored.charged).toBe(30n)
    expect(takeCount(restored, { total: 50n, seq: 5 })).toMatchObject({ charged: 50n, seq: 5 })
    // A count above the voucher could not be claimed, and a lower one never lowers a sum.
    expect(takeCount(restored, { total: 81n, seq: 5 })).toBe(restored)
    expect(takeCount(restored, { total: 29n, seq: 5 })).toBe(restored)
    // All was claimed: the sum is known, and the number is not.
    expect(takeCount(restored, { total: 30n, seq: 3 })).toMatchObject({ charged: 30n, seq: 3 })
  })
})

describe('the buyer', () => {
  test('signs one voucher for the calls that it covers, and no more than the balance', () => {
    const buyer = openAtBuyer(id, config, onChain(100n))
    expect(planCalls(buyer, [10n, 20n], 0n)).toEqual({ ok: true, ceiling: 30n, mark: 30n })
    expect(planCalls(buyer, [10n], 200n)).toEqual({ ok: true, ceiling: 100n, mark: 100n })
    expect(planCalls(buyer, [101n], 0n)).toEqual({ ok: false, reason: 'balance' })
    const marked = raiseMark(buyer, 50n)
    expect(planCalls(marked, [10n], 5n)).toEqual({ ok: true, ceiling: 15n, mark: undefined })
    const sent = sendCalls(marked, [{ id: 'a', asked: 10n }], voucherOf(15n))
    expect(planCalls(sent, [5n], 5n)).toEqual({ ok: true, voucher: voucherOf(15n) })
    expect(() => sendCalls(marked, [{ id: 'a', asked: 60n }], voucherOf(60n))).toThrow('above the mark')
    const leaving = seenByBuyer(sent, { ...onChain(100n), withdrawal: { amount: 90n, initiatedAt: 1 } })
    expect(planCalls(leaving, [1n], 0n)).toEqual({ ok: false, reason: 'balance' })
  })

  test('after a restart takes all that it may have signed as signed', () => {
    const buyer = reopenAtBuyer({ ...raiseMark(buyerInFlight(), 40n) })
    expect(buyer).toMatchObject({ signed: 40n, voucher: undefined })
    expect(atRisk(buyer)).toBe(40n)
  })

  test.each([
    ['more than was asked', { amount: 11n, total: 11n, seq: 1 }, 'charged 11 for a call of at most 10'],
    ['less than nothing', { amount: -1n, total: -1n, seq: 1 }, 'charged -1'],
    ['another sum than its charges make', { amount: 5n, total: 6n, seq: 1 }, 'states a sum of 6'],
    ['a number twice', { amount: 5n, total: 5n, seq: 0 }, 'the number 0'],
  ])('signs no more where the seller states %s', (_, charge, why) => {
    const before = { ...buyerInFlight(), statedSeq: -1 }
    const buyer = countCharge(before, { call: 'a', asked: 10n, charge })
    expect(buyer.stopped).toContain(why)
    expect(buyer.charged).toBe(0n)
    expect(planCalls(buyer, [1n], 0n)).toEqual({ ok: false, reason: 'stopped' })
  })

  test('counts charges in the order of their numbers', () => {
    const two = sendCalls(raiseMark(buyerInFlight(), 20n), [{ id: 'b', asked: 10n }], voucherOf(20n))
    const late = countCharge(two, { call: 'b', asked: 10n, charge: { amount: 4n, total: 7n, seq: 2 } })
    expect(late).toMatchObject({ charged: 0n, seq: 0, stopped: undefined })
    expect(late.inFlight.size).toBe(2)
    // It has ended: no voucher that is on its way raises what it may cost.
    expect([late.inFlight.get('b'), growCall(late, 'b', 20n)]).toEqual([4n, late])
    const both = countCharge(late, { call: 'a', asked: 10n, charge: { amount: 3n, total: 3n, seq: 1 } })
    expect(both).toMatchObject({ charged: 7n, seq: 2, stopped: undefined })
    expect(both.inFlight.size).toBe(0)
  })

  test('takes over the sum of the seller only where its own voucher proves that it has lost records', () => {
    const buyer = buyerInFlight()
    const lost = adoptStatement(buyer, { charged: 30n, seq: 4, voucher: voucherOf(35n) })
    expect(lost).toMatchObject({ charged: 30n, seq: 4, statedSeq: 4, signed: 35n, mark: 35n })
    // A call that was in that sum ends without being counted twice.
    const ended = countCharge(lost!, { call: 'a', asked: 10n, charge: { amount: 9n, total: 29n, seq: 3 } })
    expect(ended).toMatchObject({ charged: 30n, stopped: undefined })
    expect(ended.inFlight.size).toBe(0)
    // One that came early, and is in that sum, is not in flight any more.
    const early = countCharge(buyer, { call: 'a', asked: 10n, charge: { amount: 9n, total: 29n, seq: 3 } })
    expect(adoptStatement(early, { charged: 30n, seq: 4, voucher: voucherOf(35n) })!.inFlight.size).toBe(0)
    // One that came early, and is the next after that sum, is counted, and so are those after it.
    const next = countCharge(buyer, { call: 'a', asked: 10n, charge: { amount: 2n, total: 32n, seq: 5 } })
    const after = adoptStatement(next, { charged: 30n, seq: 4, voucher: voucherOf(35n) })!
    expect(after).toMatchObject({ charged: 32n, seq: 5, statedSeq: 4, stopped: undefined })
    expect([after.inFlight.size, after.early.size]).toEqual([0, 0])
    const later = countCharge(after, { call: 'b', asked: 10n, charge: { amount: 1n, total: 33n, seq: 6 } })
    expect(later).toMatchObject({ charged: 33n, seq: 6 })
    // What was signed since the statement came stays at risk.
    const raised = { ...buyer, mark: 50n, signed: 50n }
    const late = adoptStatement(raised, { charged: 30n, seq: 4, voucher: voucherOf(35n) }, buyer.mark)
    expect(late).toMatchObject({ signed: 50n, mark: 50n })
    // All that this buyer has signed is within its mark: it has all its records.
    expect(adoptStatement(buyer, { charged: 10n, seq: 4, voucher: voucherOf(10n) })).toBeUndefined()
    expect(adoptStatement(buyer, { charged: 36n, seq: 4, voucher: voucherOf(35n) })).toBeUndefined()
    expect(adoptStatement(buyer, { charged: 0n, seq: 4, voucher: voucherOf(35n) })).toBeUndefined()
    const claimed = seenByBuyer(buyer, onChain(100n, 31n))
    expect(adoptStatement(claimed, { charged: 30n, seq: 4, voucher: voucherOf(35n) })).toBeUndefined()
  })
})
