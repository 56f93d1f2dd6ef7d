import { expect, test } from 'vitest'
import { FakeChannels, PRICE } from '../../../test/support/channel-buyer.ts'
import { randomHex } from '../../../test/support/payments.ts'
import { scriptedMarket } from '../../../test/support/scripted-market.ts'
import { ScriptedSeller, type ScriptedStream } from '../../../test/support/scripted-seller.ts'
import { until } from '../../../test/support/until.ts'
import { parseJson } from '../../lib/json.ts'
import { parseMessage } from '../../protocols/x402/messages.ts'

type Json = Record<string, unknown>
/** The methods that a seller of the last release before channels knows. */
const METHODS = ['execute', 'result', 'receipt']

/** A seller that knows only `exact`, as the last release before channels answers. */
function oldSeller() {
  const frames: Json[] = []
  let sold = 0
  const serve = async (stream: ScriptedStream): Promise<void> => {
    for (;;) {
      const frame = await stream.nextFrame()
      if (frame === undefined) return
      const json = parseJson(frame.data) as Json & { payment?: Json | null }
      frames.push(json)
      const message = parseMessage(frame)
      if (frame.type === 'x402.request' && !METHODS.includes(String(json.method))) {
        await stream.refuse(message, 'INVALID_MESSAGE', { error_code: 1000, message: 'x402.request: method' })
      } else if (json.payment != null && json.payment.payload === undefined) {
        await stream.refuse(message, 'PAYMENT_INVALID', { error_code: 2001, message: 'the payment has no payload' })
      } else if (frame.type === 'x402.request') await stream.challenge(message, { challenge_nonce: randomHex() })
      else {
        sold += 1
        await stream.respond(message, {
          payment_id: (json.payment!.payload as { authorization: Json }).authorization.nonce,
        })
      }
    }
  }
  const script = new ScriptedSeller(serve)
  return { open: script.open, frames, sold: () => sold }
}

async function market() {
  const seller = oldSeller()
  const chain = new FakeChannels()
  return {
    seller,
    chain,
    ...(await scriptedMarket({ open: seller.open, reader: chain }, { price: PRICE, calls: 100 })),
  }
}

test('an old seller without channels in its listing is asked as before, with no field about channels', async () => {
  const { seller, buyer, store, list } = await market()
  list(undefined)
  for (let call = 0; call < 8; call += 1) expect(await buyer.execute()).toMatchObject({ output: 'result' })
  expect([seller.sold(), await store.list(), await buyer.spent()]).toEqual([8, [], 8n * PRICE])
  const known = ['version', 'correlation_id', 'resource', 'method', 'body', 'caller_did']
  for (const { payment, ...frame } of seller.frames) {
    // Extensions that a seller does not know are dropped. None of them is about channels.
    expect(known.filter((field) => frame.method !== undefined && !(field in frame))).toEqual([])
    expect(JSON.stringify(frame)).not.toContain('channel')
    if (payment == null) continue
    const fields = ['x402_version', 'scheme', 'network', 'server_nonce', 'payer', 'payload']
    expect(fields).toEqual(expect.arrayContaining(Object.keys(payment)))
  }
})

test('a seller that went back to the last release takes no deposit and no voucher, and each call is paid for once', async () => {
  const { seller, buyer, store, channels, chain } = await market()
  for (let call = 0; call < 6; call += 1) await buyer.execute()
  const deposits = () => seller.frames.filter(({ method }) => method === 'deposit')
  await until(() => deposits().length > 0)
  const { id, deposit } = (await store.list())[0]!
  // The deposit had landed before.
  chain.set(id, deposit!.amount)
  await until(async () => (await store.list())[0]!.deposit === undefined)
  const results = await Promise.all(Array.from({ length: 12 }, () => buyer.execute()))
  expect(results.map(({ output }) => output)).toEqual(results.map(() => 'result'))
  const onChannel = seller.frames.filter(({ method, payment }) => {
    return method === 'execute' && payment != null && (payment as Json).channel !== undefined
  })
  expect(onChannel.length).toBeGreaterThan(0)
  expect([seller.sold(), await buyer.spent()]).toEqual([18, 18n * PRICE])
  const { charged, stopped } = (await store.list())[0]!
  expect([charged, stopped, channels.line(id)!.channel.inFlight.size]).toEqual([0n, undefined, 0])
})
