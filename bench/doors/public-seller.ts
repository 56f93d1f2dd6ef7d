import { createNode } from '../../src/node/create-node.ts'
import { inProcess } from '../paid-call/instant-facilitator.ts'
import { benchConfig } from '../paid-call/stoa-config.ts'
import { PRICE_ATOMIC } from '../paid-call/terms.ts'
import { servePart } from '../part.ts'

/** Our seller with its public listener: the node as shipped, with `builtin/echo`. */
servePart(async ({ dataDir = '', facilitatorUrl = '' }) => {
  const asked = facilitatorUrl === '' ? { ports: { facilitator: inProcess() } } : { facilitatorUrl, ports: {} }
  const { config, secrets } = benchConfig({ dataDir, databaseUrl: '', ...asked })
  const open = { ...config, public: { ...config.public, host: '127.0.0.1', port: 0 } }
  const node = await createNode(open, secrets, asked.ports)
  await node.start()
  const { id } = await node.registerAgent(
    { name: 'Echo', description: 'Answers what it is asked.', price: PRICE_ATOMIC, model: 'builtin/echo' },
    { persist: false },
  )
  return { ready: { url: `${node.publicUrl}/x402/${id}` }, stop: () => node.stop() }
})
