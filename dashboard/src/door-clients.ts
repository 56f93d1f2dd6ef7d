import type { Doors } from './api/types.ts'

type Door = Doors['doors'][number]['door']
/** A kind of client, the door that it comes through, and what it is given. */
export type DoorClient = { id: string; name: string; door: Door; snippet(agent: SoldAgent, network: string): string }
export type SoldAgent = Doors['doors'][number]['agents'][number]

/** The kinds of clients that buy an agent, the most common first. */
export const doorClients: readonly DoorClient[] = [
  { id: 'url', name: 'Address', door: 'http', snippet: ({ url }) => url },
  {
    ...{ id: 'curl', name: 'curl', door: 'http' },
    snippet: ({ url }) => `curl -i '${url}' -H 'content-type: application/json' -d '{"task": "…"}'`,
  },
  {
    ...{ id: 'fetch', name: '@x402/fetch', door: 'http' },
    snippet: ({ url }, network) => `import { x402Client } from '@x402/core/client'
import { ExactEvmScheme } from '@x402/evm'
import { wrapFetchWithPayment } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const account = privateKeyToAccount(process.env.PRIVATE_KEY)
const client = new x402Client().register('${network}', new ExactEvmScheme(account))
const pay = wrapFetchWithPayment(fetch, client)
const answer = await pay('${url}', {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ task: '…' }),
})
console.log(await answer.json())`,
  },
  {
    ...{ id: 'mcp', name: 'MCP', door: 'mcp' },
    snippet: ({ url }) => JSON.stringify({ mcpServers: { agents: { type: 'http', url } } }, undefined, 2),
  },
  { id: 'a2a', name: 'A2A', door: 'a2a', snippet: ({ url }) => `${url}/.well-known/agent-card.json` },
  {
    ...{ id: 'stoa', name: 'Stoa', door: 'libp2p' },
    snippet: ({ agent_id }) => `stoa agent execute --agent-id ${agent_id} --task "…"`,
  },
]

/** What the operator's own programs are given. */
export function openAiSnippet(url: string): string {
  return `curl -s ${url}/chat/completions -H 'content-type: application/json' \\
  -d '{"model": "auto", "messages": [{"role": "user", "content": "…"}]}'`
}
