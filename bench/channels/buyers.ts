import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { StoaNode } from '../../src/node/api.ts'
import { servePart } from '../part.ts'
import { quantile } from '../statistics.ts'
import { FAILS, STREAMS, startNode } from './node.ts'

const FIND_MS_MAX = 60_000
/** One call of so many fails, and one shows its output while it runs. */
const FAILS_EVERY = 97
const STREAMS_EVERY = 10

type Plan = { calls: number }
type Done = { succeeded: number; failed: number; streamed: number; wrong: number; oneByOne: number; ms: number[] }

/** Several buyers in one process, each with its own wallet, ledger and channel. */
servePart(async ({ dir = '', rpcUrl = '', facilitatorUrl = '', keys = '', seller = '', agentId = '', atOnce = '' }) => {
  const nodes: StoaNode[] = []
  for (const [place, key] of keys.split(',').entries()) {
    const dataDir = join(dir, `buyer-${place}`)
    const node = await startNode({ dataDir, rpcUrl, facilitatorUrl, bootstrap: [seller], channels: 'auto' }, key)
    nodes.push(node)
    await found(node, agentId)
  }
  for (const node of nodes) await opened(node, agentId)
  return {
    ready: {},
    async answer(question) {
      if (question === 'state') {
        const stats = await Promise.all(nodes.map((node) => node.stats({ days: 1 })))
        const paid = stats.reduce((sum, { paid: { total_atomic } }) => sum + BigInt(total_atomic), 0n)
        return { rss: process.memoryUsage.rss(), paid: paid.toString() }
      }
      const { calls } = question as Plan
      const done: Done = { succeeded: 0, failed: 0, streamed: 0, wrong: 0, oneByOne: 0, ms: [] }
      const each = { agentId, calls: calls / nodes.length, atOnce: Number(atOnce), done }
      await Promise.all(nodes.map((node, place) => callMany(node, `${place}`, each)))
      const { ms, ...sums } = done
      return { ...sums, p50: quantile(ms, 0.5), p99: quantile(ms, 0.99) }
    },
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  }
})

let made = 0
async function callMany(
  node: StoaNode,
  name: string,
  { agentId, calls, atOnce, done }: { agentId: string; calls: number; atOnce: number; done: Done },
): Promise<void> {
  let left = calls
  const lane = async () => {
    while (left-- > 0) await callOnce(node, agentId, `${name} ${made}`, done)
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
}

async function callOnce(node: StoaNode, agentId: string, name: string, done: Done): Promise<void> {
  const number = made++
  const isFailing = number % FAILS_EVERY === 0
  const isStreamed = !isFailing && number % STREAMS_EVERY === 0
  const input = `${isFailing ? FAILS : isStreamed ? STREAMS : 'say'} ${name}`
  let shown = 0
  const onProgress = ({ type }: { type: string }) => {
    if (type === 'output') shown++
  }
  const { signal } = new AbortController()
  const from = performance.now()
  try {
    const { output, payment } = await node.execute({ agentId, input, signal, ...(isStreamed && { onProgress }) })
    done.ms.push(performance.now() - from)
    if (payment?.channel_id === undefined) done.oneByOne++
    const isShown = shown > 0
    if (output !== input || isFailing || isShown !== isStreamed) done.wrong++
    done.succeeded++
    if (isShown) done.streamed++
  } catch (error) {
    if (!isFailing) {
      done.wrong++
      process.stderr.write(`a call failed that should not: ${error}\n`)
    }
    done.failed++
  }
}

async function found(node: StoaNode, agentId: string): Promise<void> {
  await until(() => node.listings().some(({ id }) => id === agentId), 'the listing of the seller did not come')
}

/** Calls one by one until the deposit has landed and a call went over the channel. */
async function opened(node: StoaNode, agentId: string): Promise<void> {
  const { signal } = new AbortController()
  await until(async () => {
    const { payment } = await node.execute({ agentId, input: `open ${made++}`, signal })
    return payment?.settlement === 'settled' && payment.tx_hash === ''
  }, 'no channel was opened')
}

async function until(holds: () => boolean | Promise<boolean>, problem: string): Promise<void> {
  const end = performance.now() + FIND_MS_MAX
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`${problem} within ${FIND_MS_MAX} ms`)
    await delay(250)
  }
}
