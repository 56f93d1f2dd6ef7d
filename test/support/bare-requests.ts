/** The bytes that clients of other libraries send on a stream. */
import { randomUUID } from 'node:crypto'
import { generatePrivateKey } from 'viem/accounts'
import { encodeTextFrame } from '../../src/protocols/frame.ts'
import { startTestNode, type TestNode } from './loopback-node.ts'

export async function startEchoSeller(): Promise<{ seller: TestNode; agentId: string }> {
  const seller = await startTestNode({ key: generatePrivateKey() })
  const agent = { name: 'echo', description: 'says it again', price: 0n, model: 'builtin/echo' }
  return { seller, agentId: (await seller.registerAgent(agent, { persist: false })).id }
}

/** The negotiation of a protocol. Both sides send the same bytes. */
export function negotiation(protocol: string): Uint8Array {
  const line = (text: string) => Buffer.concat([Buffer.from([text.length + 1]), Buffer.from(`${text}\n`)])
  return Buffer.concat([line('/multistream/1.0.0'), line(protocol)])
}

export function x402Request(agentId: string, task: string): Uint8Array {
  const message = {
    version: '1.0',
    correlation_id: randomUUID(),
    resource: agentId,
    method: 'execute',
    payment: null,
    body: Buffer.from(task).toString('base64'),
    caller_did: 'did:peer:0zX',
  }
  return encodeTextFrame('x402.request', JSON.stringify(message))
}

export function marketplaceRequest(agentId: string, input: string): Uint8Array {
  return encodeTextFrame('execute', JSON.stringify({ agent_id: agentId, input }))
}
