import { setTimeout as delay } from 'node:timers/promises'
import type { StoaNode } from '../../src/node/api.ts'
import { createNode } from '../../src/node/create-node.ts'
import { StreamPool } from '../../src/protocols/streams.ts'
import { type LoadPlan, runLoad } from '../load.ts'
import { servePart } from '../part.ts'
import { benchConfig, onChainOf } from './stoa-config.ts'
import { CHANNEL_DEPOSIT_ATOMIC, TASK } from './terms.ts'
import { countTraffic, TRAFFIC } from './traffic.ts'

const FIND_MS_MAX = 15_000
const OPEN_MS_MAX = 30_000

/** Our buyer: the real node, called in process as the HTTP API calls it. */
servePart(async ({ dataDir = '', seller = '', agentId = '', databaseUrl = '', transport = 'tcp', ...chain }) => {
  const traffic = countTraffic()
  const onChain = onChainOf(chain)
  const channels = { channels: 'always', channelDepositMaxAtomic: CHANNEL_DEPOSIT_ATOMIC } as const
  const { facilitatorUrl } = chain
  const { config, secrets } = benchConfig({
    ...{ dataDir, bootstrap: seller, databaseUrl, onChain, settings: onChain && channels },
    ...(facilitatorUrl !== undefined && { facilitatorUrl }),
  })
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
  const channelCall = async () => {
    const { output, payment } = await node.execute({ agentId, input: TASK, signal })
    if (output !== TASK) throw new Error('not the result that was paid for')
    // Settled without a transaction of its own.
    return payment?.settlement === 'settled' && payment.tx_hash === ''
  }
  const call = onChain === undefined ? callOf : () => onlyOnChannel(channelCall)
  if (onChain !== undefined) await opened(channelCall)
  return {
    ready: {},
    async answer(question) {
      if (question === TRAFFIC) return traffic()
      const { reuse, awaits, ...plan } = question as LoadPlan & { reuse: boolean; awaits: boolean }
      reuseStreams(reuse)
      const load = await runLoad(plan, call(awaits))
      const other = node
        .peers()
        .find(({ addresses }) => addresses.some((one) => one.includes('/quic') !== (transport === 'quic')))
      if (other !== undefined) throw new Error(`connected over another transport: ${other.addresses.join()}`)
      return load
    },
    stop: () => node.stop(),
  }
})

/** Waits until the deposit into a channel has landed. Calls before that are paid for by themselves. */
async function opened(channelCall: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + OPEN_MS_MAX
  while (!(await channelCall())) {
    if (performance.now() > end) throw new Error(`no call was paid by a channel within ${OPEN_MS_MAX} ms`)
    await delay(200)
  }
}

function onlyOnChannel(channelCall: () => Promise<boolean>): () => Promise<void> {
  return async () => {
    if (!(await channelCall())) throw new Error('a call was not paid by the channel')
  }
}

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
