/** T16 T36 D53 across crashes: a seller is killed at each step of a sale over HTTP. The same request again, and the chain, judge. */
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usdcEvents } from '../../devnet/chain.ts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { openPublicSeller } from '../support/public-process.ts'
import { patiently, sendTask, signFor, termsAt } from '../support/public-seller.ts'
import { until } from '../support/until.ts'

const PRICE = 10_000n
const FUNDS = 1_000_000n
let devnet: Devnet

beforeAll(async () => {
  devnet = await startDevnet()
})
afterAll(async () => {
  await killNodeProcesses()
  await devnet?.stop()
})

type Outcome = { status: number; settlement?: string; runs: number; isPaid: boolean }
const bought: Outcome = { status: 200, runs: 1, isPaid: true }
const nothing = (runs: number): Outcome => ({ status: 502, settlement: 'none', runs, isPaid: false })
const cases: [string, string, Outcome, { agent?: string; args?: string[]; door?: string }?][] = [
  ['seller:verified', 'nothing was claimed: the same request buys its run', bought],
  ['seller:claimed', 'the claim is void: nothing ran', nothing(0)],
  ['seller:executed', 'the claim is void: the result is lost', nothing(1)],
  ['seller:owed', 'the result is kept, and what is owed is settled', bought],
  ['seller:settle-answered', 'the result is kept, and what was settled is found on the chain', bought],
  ['seller:settled', 'the result is kept and paid', bought],
  ['seller:voided', 'a void payment stays void', nothing(1), { agent: 'fail' }],
  ['seller:settled-first', 'what was settled first is run', bought, { args: ['--settle-first'] }],
  ['seller:settled-first', 'a stream that was paid first gives its result', bought, { door: '/stream' }],
]
test.each(cases)(
  'killed at %s: %s',
  async (faultPoint, _what, expected, { agent = 'repeat', args = [], door = '' } = {}) => {
    const key = generatePrivateKey()
    const payer = privateKeyToAccount(key).address
    await devnet.fund(payer, FUNDS)
    const seller = await openPublicSeller(devnet)
    const task = `task of ${faultPoint}`
    const first = await seller.start({ faultPoint, args })
    const paid = await signFor(await termsAt(first.at(agent) + door), key)
    const lost = sendTask(first.at(agent) + door, task, paid).catch(() => undefined)
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await lost

    const second = await seller.start({ args })
    const place = second.at(agent) + door
    const again = () => sendTask(place, task, paid)
    // Ten clients that have all lost the answer.
    const answers = await Promise.all(Array.from({ length: 10 }, () => patiently(again)))
    for (const { status, text } of answers) {
      expect([status, settlementIn(text)]).toEqual([expected.status, expected.settlement])
      if (expected.status === 200) expect(text).toContain(JSON.stringify(task))
    }
    const others = await Promise.all([sendTask(place, 'another', paid), sendTask(second.at(agent), 'another', paid)])
    expect(others.map(({ status }) => status)).toEqual([409, 409])
    await until(async () => ((await seller.earned()) === PRICE) === expected.isPaid, {
      timeoutMs: 60_000,
      everyMs: 100,
    })
    await second.stop()
    expect(await seller.ran()).toEqual(Array(expected.runs).fill(task))
    expect(await seller.earned()).toBe(expected.isPaid ? PRICE : 0n)
    expect(await devnet.chain.balanceOf(payer)).toBe(FUNDS - (expected.isPaid ? PRICE : 0n))
    expect(await authorizationsUsedBy(payer)).toBe(expected.isPaid ? 1 : 0)
  },
)

function settlementIn(text: string): string | undefined {
  return /"settlement":"(\w+)"/.exec(text)?.[1]
}

async function authorizationsUsedBy(authorizer: Hex): Promise<number> {
  const { client } = devnet.chain
  return (await client.getLogs({ event: usdcEvents.authorizationUsed, args: { authorizer }, fromBlock: 0n })).length
}
