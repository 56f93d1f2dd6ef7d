import { createNode } from '../../src/node.ts'
import { servePart } from '../part.ts'
import { benchConfig } from './stoa-config.ts'
import { PRICE_ATOMIC } from './terms.ts'

/** Our seller: the real node with `builtin/echo`. */
servePart(async ({ dataDir = '', facilitatorUrl = '', transport = 'tcp' }) => {
  const { config, secrets } = benchConfig({ dataDir, facilitatorUrl })
  const node = await createNode(config, secrets)
  await node.start()
  const { id } = await node.registerAgent(
    { name: 'Echo', description: 'Answers what it is asked.', price: PRICE_ATOMIC, model: 'builtin/echo' },
    { persist: false },
  )
  const address = node.addresses().find((one) => one.includes(transport === 'tcp' ? '/tcp/' : '/quic-v1'))
  if (address === undefined) throw new Error(`the seller does not listen on ${transport}`)
  return { ready: { address, agentId: id }, stop: () => node.stop() }
})
