import { setTimeout as delay } from 'node:timers/promises'
import type { StoaNode } from '../../src/node/api.ts'
import { createNode } from '../../src/node/create-node.ts'
import { StreamPool } from '../../src/protocols/streams.ts'
import { type LoadPlan, runLoad } from '../load.ts'
import { servePart } from '../part.ts'
import { benchConfig } from './stoa-config.ts'
import { TASK } from './terms.ts'
import { countTraffic, TRAFFIC } from './traffic.ts'

const FIND_MS_MAX = 15_000

/** Our buyer: the real node, called in process as the HTTP API calls it. */
servePart(async ({ dataDir = '', seller = '', agentId = '', databaseUrl = '', transport = 'tcp' }) => {
  const traffic = countTraffic()
  const { config, secrets } = benchConfig({ dataDir, bootstrap: seller, databaseUrl })
  const node = await createNode(config, secrets)
  await node.start()
  await found(node, agentId)
  const { signal } = new AbortController()
  const callOf = (awaitsSettlement: boolean) => async () => {
    const { output, payment } = await node.execute({ agentId, input: TASK, awaitsSettlement, signal })
    // The bench has no chain, so a settlement stays what the seller claims (D41).
    const isPaid = awaitsSettlement ? payment?.settlement === 'claimed' && payment.tx_hash !== '' : payment !== null
    if (output !== TASK || !isPaid) throw new Error('not the result that was paid for')
  }
  return {
    ready: {},
    async answer(question) {
      if (question === TRAFFIC) return traffic()
      const { reuse, awaits, ...plan } = question as LoadPlan & { reuse: boolean; awaits: boolean }
      reuseStreams(reuse)
      const load = await runLoad(plan, callOf(awaits))
      const other = node
        .peers()
        .find(({ addresses }) => addresses.some((one) => one.includes('/quic') !== (transport === 'quic')))
      if (other !== undefined) throw new Error(`connected over another transport: ${other.addresses.join()}`)
      return load
    },
    stop: () => node.stop(),
  }
})

async function found(node: StoaNode, agentId: string): Promise<void> {
  const end = performance.now() + FIND_MS_MAX
  while (!node.listings().some(({ id }) => id === agentId)) {
    if (performance.now() > end) throw new Error(`the seller's listing did not come within ${FIND_MS_MAX} ms`)
    await delay(20)
  }
}

const { give, take } = StreamPool.prototype

/**
 * Turns the reuse of streams on or off. This is not a setting of the node, because only this bench turns the reuse off.
 */
function reuseStreams(reuse: boolean): void {
  StreamPool.prototype.give = reuse ? give : (_peer, stream) => void stream.close().catch(() => {})
  StreamPool.prototype.take = reuse
    ? take
    : async function (this: StreamPool, peer, signal) {
        return { stream: await this.open(peer, signal), reused: false }
      }
}
