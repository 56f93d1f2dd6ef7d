/**
 * Measures the doors beside what users would take instead, in one run. Compare only figures of the same run.
 *
 * - Paid calls over HTTP: our public listener beside an `@x402/express` server, both with `exact` of x402 v2, the same
 *   facilitator, the same client and load. The client signs before the measurement and sends with undici, so that it shows
 *   what the sellers take. Stock clients ask for the terms first, so a call is measured with that question and without.
 *   A floor stands beside both: Node's own HTTP server with nothing but what a seller needs to lose no money.
 * - Honest calls alone, and while one address sends 10,000 unpaid requests.
 * - The OpenAI door beside a direct call of the same agent on the local API.
 *
 * The facilitator takes no time. By default it runs in a process of its own, as for every seller: `@x402/express` asks it to
 * verify and to settle, and ours to settle. With `--facilitator in-process` both call it in their own process, and
 * `@x402/express` then checks no signature at all. It stores nothing either, while ours commits each sale to disk.
 */
import { availableParallelism } from 'node:os'
import type { Flooded, Paid } from './doors/client.ts'
import type { Compared } from './doors/door-client.ts'
import { ask, type SellerPart, startParts } from './doors/parts.ts'
import {
  type DoorSample,
  type FloodSample,
  goalLines,
  goalsOf,
  type PaidSample,
  reportLines,
  type SellerName,
} from './doors/report.ts'
import { readFlags } from './flags.ts'
import { TASK } from './paid-call/terms.ts'

const values = readFlags({
  json: { type: 'boolean', default: false },
  quick: { type: 'boolean', default: false },
  facilitator: { type: 'string', default: 'http' },
  rounds: { type: 'string' },
  /** Parts to run, separated by commas: paid, flood, openai. The bench then judges no goals. */
  only: { type: 'string' },
  /** Directory for the CPU profiles of all processes. */
  profile: { type: 'string' },
})
const rounds = Number(values.rounds ?? (values.quick ? 1 : 5))
const facilitator = values.facilitator === 'in-process' ? 'in-process' : 'http'
const only = values.only?.split(',')
const wants = (part: string) => only === undefined || only.includes(part)

/** Calls of one measurement at each load. */
const loads = values.quick ? { 1: 100, 64: 600 } : { 1: 200, 64: 1_500 }
const HONEST = { concurrent: 4, alone: values.quick ? 400 : 1_000, flooded: 20_000 }
const FLOOD = { requests: 10_000, connections: 100 }
/** The door takes 60 calls of one client at once, so each round has a node of its own. */
const DOOR = { calls: 24, warmUp: 4 }

const note = (text: string) => process.stderr.write(`${text}\n`)
const parts = await startParts({ profileDir: values.profile, facilitator })
try {
  const paid: PaidSample[] = []
  const floods: FloodSample[] = []
  const doors: DoorSample[] = []
  note('warming up')
  if (wants('paid') || wants('flood'))
    for (const seller of Object.values(parts.sellers)) await measure(seller, { calls: 2_000, concurrent: 64 })
  for (let round = 1; round <= rounds; round++) {
    note(`round ${round} of ${rounds}`)
    if (wants('paid')) paid.push(...(await paidRound(round)))
    if (wants('flood')) floods.push(await floodRound())
    if (wants('openai')) doors.push(...(await doorRound()))
  }
  const setting = {
    ...{ facilitator, taskBytes: TASK.length, rounds, node: process.version, cpus: availableParallelism() },
    notes:
      'no RPC is configured: what the facilitator says stands; addresses and accounts are as many as the limits ask',
  }
  const goals = only === undefined ? goalsOf({ paid, floods, doors }) : []
  if (values.json) process.stdout.write(`${JSON.stringify({ setting, goals, paid, floods, doors }, undefined, 2)}\n`)
  else {
    const text = Object.entries(setting).map(([name, value]) => `${name}: ${value}`)
    const lines = [...text, '', ...reportLines({ paid, floods, doors }), ...goalLines(goals)]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
} finally {
  await parts.stop()
}

type Calls = { calls: number; concurrent: number; asksFirst?: boolean }

/** Signs, then sends, and takes the CPU of all processes meanwhile. */
async function measure({ seller, part }: SellerPart, { calls, concurrent, asksFirst = false }: Calls) {
  const { client, facilitator: other } = parts
  await ask(client, { kind: 'sign', seller, calls })
  const used = () => Promise.all([part.cpuMs(), client.cpuMs(), other?.cpuMs() ?? 0])
  const before = await used()
  const done = await ask<Paid>(client, { kind: 'pay', seller, calls, concurrent, asksFirst })
  const after = await used()
  const micros = (index: number) => ((after[index]! - before[index]!) * 1000) / done.calls
  return { ...done, cpu: { seller: micros(0), client: micros(1), facilitator: micros(2) } }
}

/** Both sellers at every load in turn, so that a busy minute of the machine affects both. */
async function paidRound(round: number): Promise<PaidSample[]> {
  const samples: PaidSample[] = []
  for (const asksFirst of [true, false]) {
    for (const [load, calls] of Object.entries(loads)) {
      const concurrent = Number(load)
      for (const [name, seller] of Object.entries(parts.sellers)) {
        const variant = name as SellerName
        samples.push({
          ...(await measure(seller, { calls, concurrent, asksFirst })),
          variant,
          asksFirst,
          concurrent,
          round,
        })
      }
    }
  }
  return samples
}

async function floodRound(): Promise<FloodSample> {
  const { ours } = parts.sellers
  const { concurrent, alone: calls, flooded: most } = HONEST
  const alone = await measure(ours, { calls, concurrent })
  const attacker = await parts.start('./doors/client.ts')
  await ask(parts.client, { kind: 'sign', seller: ours.seller, calls: most })
  const flooding = ask<Flooded>(attacker, { kind: 'flood', seller: ours.seller, ...FLOOD }).finally(() =>
    ask(parts.client, { kind: 'halt' }),
  )
  const pay = { kind: 'pay', seller: ours.seller, calls: most, concurrent, asksFirst: false } as const
  const [flood, flooded] = await Promise.all([flooding, ask<Paid>(parts.client, pay)])
  await attacker.stop()
  return { alone, flooded, flood }
}

async function doorRound(): Promise<DoorSample[]> {
  const node = await parts.start('./doors/openai-node.ts')
  const client = await parts.start('./doors/door-client.ts')
  const { url = '', agentId = '' } = node.ready
  const samples: DoorSample[] = []
  for (const [name, model] of [
    ['by id', agentId],
    ['auto', 'auto'],
  ] as const) {
    samples.push({ ...(await client.ask<Compared>({ url, agentId, model, ...DOOR })), model: name })
  }
  await client.stop()
  await node.stop()
  return samples
}
