import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import type { ExecuteRequest } from '../../src/buying/execute.ts'
import type { AgentDefinition } from '../../src/schema/agent.ts'
import type { ExecutionResult } from '../../src/schema/api.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { ask, discovered } from './api-calls.ts'
import { startTestNode, type TestNode, type TestNodeOptions } from './test-node.ts'

export const FUNDS = 1_000_000n
/** Prices of the inner agent and of the agent that buys from it, in atomic units. */
export const INNER = 20_000n
export const OUTER = 50_000n

export type FrontOrder = {
  id: string
  agent_id: string
  status: string
  payment?: { amount: string; book: string }
  bought_for?: { agent_id: string; agent_name: string }
}
/** A node and its agent, which buys its work from the inner agent. */
export type Front = TestNode & { key: Hex; id: string }

export const urlOf = ({ url }: TestNode, id: string) => `${url}/a2a/${id}`
export const ordersOf = ({ url }: { url: string }) => ask<FrontOrder[]>(url, '/orders?limit=100')
export const signedBy = async (node: { url: string }) =>
  (await ordersOf(node)).filter(({ payment }) => payment !== undefined)
export const run = (
  { node, id }: Pick<Front, 'node' | 'id'>,
  more: Partial<ExecuteRequest> = {},
): Promise<ExecutionResult> =>
  node.execute({ agentId: id, input: 'hello', signal: AbortSignal.timeout(60_000), ...more })
export const refusal = (running: Promise<unknown>) =>
  running.then(
    (given) => Promise.reject(new Error(`gave ${JSON.stringify(given)}`)),
    (error: { code: string; message: string }) => error,
  )
export async function sell({ node }: TestNode, fields: object): Promise<string> {
  const definition = { description: 'An agent.', ...fields } as AgentDefinition
  return (await node.registerAgent(definition, { persist: false })).id
}

/** Starts a chain, and a node that sells an agent to other agents. */
export async function startFrontMarket() {
  const devnet: Devnet = await startDevnet()
  const inner = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey })
  const innerId = await sell(inner, { name: 'inner', price: INNER, model: 'builtin/echo' })
  const nodes: TestNode[] = []

  /** Starts a funded node of the same market. */
  async function funded(options: TestNodeOptions = {}, peers: TestNode[] = [inner]) {
    const key = generatePrivateKey()
    await devnet.fund(privateKeyToAddress(key), FUNDS)
    const bootstrap = peers.map(({ node }) => node.addresses()[0]!)
    const node = await startTestNode({ devnet, walletKey: key, bootstrap, ...options })
    nodes.push(node)
    return { ...node, key }
  }

  return {
    devnet,
    inner,
    innerId,
    nodes,
    funded,
    balance: (key: Hex) => devnet.chain.balanceOf(privateKeyToAddress(key)),
    async front(fields: object = {}, options: TestNodeOptions = {}): Promise<Front> {
      const node = await funded(options)
      await discovered(node.url, innerId)
      const a2a = urlOf(inner, innerId)
      const id = await sell(node, { name: 'front', price: OUTER, a2a, max_price: 30_000n, ...fields })
      return { ...node, id }
    },
    stopNodes: () => Promise.all(nodes.splice(0).map((node) => node.stop())),
    async stop() {
      await inner.stop()
      await devnet.stop()
    },
  }
}
export type FrontMarket = Awaited<ReturnType<typeof startFrontMarket>>
