import { createNode } from '../../src/node/create-node.ts'
import { servePart } from '../part.ts'
import { inProcess } from './instant-facilitator.ts'
import { benchConfig, onChainOf } from './stoa-config.ts'
import { CHANNEL_DEPOSIT_ATOMIC, CHANNEL_PRICE_ATOMIC, PRICE_ATOMIC } from './terms.ts'
import { countTraffic } from './traffic.ts'

/** Our seller: the real node with `builtin/echo`. */
servePart(
  async ({ dataDir = '', facilitatorUrl = '', databaseUrl = '', transport = 'tcp', settleMs = '0', ...chain }) => {
    const traffic = countTraffic()
    const facilitator = inProcess(Number(settleMs))
    const asked = facilitatorUrl === '' ? { ports: { facilitator } } : { facilitatorUrl, ports: {} }
    const onChain = onChainOf(chain)
    const channels = { sellerChannels: 'auto', channelMinDepositAtomic: CHANNEL_DEPOSIT_ATOMIC } as const
    const { config, secrets } = benchConfig({ dataDir, databaseUrl, ...asked, onChain, settings: onChain && channels })
    const price = onChain === undefined ? PRICE_ATOMIC : CHANNEL_PRICE_ATOMIC
    const node = await createNode(config, secrets, asked.ports)
    await node.start()
    const { id } = await node.registerAgent(
      { name: 'Echo', description: 'Answers what it is asked.', price, model: 'builtin/echo' },
      { persist: false },
    )
    const address = node.addresses().find((one) => one.includes(transport === 'tcp' ? '/tcp/' : '/quic-v1'))
    if (address === undefined) throw new Error(`the seller does not listen on ${transport}`)
    return { ready: { address, agentId: id }, answer: async () => traffic(), stop: () => node.stop() }
  },
)
