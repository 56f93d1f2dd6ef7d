import { setTimeout as delay } from 'node:timers/promises'
import { servePart } from '../part.ts'
import { FAILS, PRICE_ATOMIC, STREAMS, startNode } from './node.ts'

/** Longer than a seller gathers words for one frame. Only its response shows a run that ends sooner. */
const PIECE_MS = 25

/** One seller that offers channels. Its agent repeats its task, fails, or shows its output in pieces. */
servePart(async ({ dataDir = '', rpcUrl = '', facilitatorUrl = '', key = '' }) => {
  const node = await startNode({ dataDir, rpcUrl, facilitatorUrl, sellerChannels: 'auto' }, key)
  const agent = { name: 'Repeat', description: 'Repeats its task.', price: PRICE_ATOMIC }
  const { id } = await node.registerAgent(agent, {
    async run(task, { onOutput }) {
      if (task.startsWith(FAILS)) throw new Error('as it was told')
      if (!task.startsWith(STREAMS)) return task
      for (const word of task.split(' ')) {
        onOutput?.(`${word} `)
        await delay(PIECE_MS)
      }
      return task
    },
  })
  return {
    ready: { address: node.addresses().find((one) => one.includes('/tcp/'))!, agentId: id },
    answer: async () => ({
      rss: process.memoryUsage.rss(),
      charged: (await node.stats({ days: 1 })).earned.total_atomic,
    }),
    stop: () => node.stop(),
  }
})
