import { Client } from 'undici'
import { TASK } from '../paid-call/terms.ts'
import { servePart } from '../part.ts'
import { median, quantile } from '../statistics.ts'
import { type Asked, signPayments } from './signed-payments.ts'

/** A paid resource: its task goes in one field of the body, and its result comes in another. */
export type Seller = { url: string; task: string; result: string }
export type Paying = {
  kind: 'pay'
  seller: Seller
  calls: number
  concurrent: number
  /** True: each call asks for the terms first, as stock clients do. */
  asksFirst: boolean
}
export type Paid = { calls: number; perSecond: number; p50Ms: number; p99Ms: number }
/** Unpaid requests from one address. */
export type Flooding = { kind: 'flood'; seller: Seller; requests: number; connections: number }
export type Flooded = { statuses: Record<string, number>; seconds: number }
export type Question = Paying | Flooding | { kind: 'sign'; seller: Seller; calls: number } | { kind: 'halt' }

/** A seller limits the requests of one address. At every load these take turns, each with a connection of its own. */
const ADDRESSES = 64
const addressOf = (connection: number) => `127.1.0.${connection + 1}`
const FLOOD_ADDRESS = '127.0.0.9'
const json = { 'content-type': 'application/json' }
const connections = new Map<string, Client>()
let signed: string[] = []
let isHalted = false

/** The client of both sellers. Payments are signed before a measurement, so that it shows what the sellers take. */
servePart(async () => ({
  ready: {},
  async answer(question) {
    const asked = question as Question
    if (asked.kind === 'sign') signed = signPayments(await termsOf(asked.seller), asked.calls)
    else if (asked.kind === 'halt') isHalted = true
    else return asked.kind === 'pay' ? pay(asked) : flood(asked)
    return undefined
  },
  async stop() {
    await Promise.all([...connections.values()].map((client) => client.close()))
  },
}))

function clientOf(seller: Seller, localAddress: string): Client {
  const { origin } = new URL(seller.url)
  const name = `${origin} ${localAddress}`
  const known = connections.get(name)
  if (known !== undefined) return known
  const client = new Client(origin, { localAddress })
  connections.set(name, client)
  return client
}

async function termsOf(seller: Seller): Promise<Asked> {
  const request = { path: new URL(seller.url).pathname, method: 'POST', headers: json, body: bodyOf(seller) } as const
  const { headers, body } = await clientOf(seller, addressOf(0)).request(request)
  await body.dump()
  return JSON.parse(Buffer.from(String(headers['payment-required']), 'base64').toString()) as Asked
}

/** Sends what was signed, until it is used up or the bench says so. */
async function pay({ seller, calls, concurrent, asksFirst }: Paying): Promise<Paid> {
  const path = new URL(seller.url).pathname
  const waiting = signed.splice(0, calls)
  const body = bodyOf(seller)
  const latencies: number[] = []
  isHalted = false
  const sender = async (_: unknown, index: number) => {
    let address = index
    for (let payment = waiting.pop(); payment !== undefined && !isHalted; payment = waiting.pop()) {
      const client = clientOf(seller, addressOf(address))
      address = (address + concurrent) % ADDRESSES
      const from = performance.now()
      if (asksFirst) {
        const unpaid = await client.request({ path, method: 'POST', headers: json, body })
        await unpaid.body.dump()
        if (unpaid.statusCode !== 402) throw new Error(`status ${unpaid.statusCode} without a payment`)
      }
      const headers = { ...json, 'payment-signature': payment }
      const answer = await client.request({ path, method: 'POST', headers, body })
      const text = await answer.body.text()
      const isPaid = answer.statusCode === 200 && answer.headers['payment-response'] !== undefined
      if (!isPaid || (JSON.parse(text) as Record<string, unknown>)[seller.result] !== TASK) {
        throw new Error(`status ${answer.statusCode}: not the result that was paid for: ${text.slice(0, 300)}`)
      }
      latencies.push(performance.now() - from)
    }
  }
  const start = performance.now()
  await Promise.all(Array.from({ length: concurrent }, sender))
  const seconds = (performance.now() - start) / 1000
  const done = latencies.length
  return { calls: done, perSecond: done / seconds, p50Ms: median(latencies), p99Ms: quantile(latencies, 0.99) }
}

/** Sends unpaid requests as fast as they are answered. A connection that is closed is opened again. */
async function flood({ seller, requests, connections: many }: Flooding): Promise<Flooded> {
  const { origin, pathname: path } = new URL(seller.url)
  const body = bodyOf(seller)
  const statuses: Record<string, number> = {}
  let left = requests
  const start = performance.now()
  await Promise.all(
    Array.from({ length: many }, async () => {
      const client = new Client(origin, { localAddress: FLOOD_ADDRESS })
      while (left-- > 0) {
        const status = await client
          .request({ path, method: 'POST', headers: json, body })
          .then(async (answer) => {
            await answer.body.dump()
            return String(answer.statusCode)
          })
          .catch(() => 'closed')
        statuses[status] = (statuses[status] ?? 0) + 1
      }
      await client.destroy()
    }),
  )
  return { statuses, seconds: (performance.now() - start) / 1000 }
}

function bodyOf({ task }: Seller): string {
  return JSON.stringify({ [task]: TASK })
}
