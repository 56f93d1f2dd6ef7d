import * as z from 'zod'
import { LOCAL_CALLER } from '../../schema/caller.ts'
import type { SessionExchange } from '../../schema/session.ts'
import { type Context, command, option, ownAgentOption } from '../command.ts'
import { agentIdOf, callerIdOf } from '../node-access/references.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import { age, pageOptions, paymentText, printList, tellMore } from '../text/market-text.ts'
import { printable, printableLine } from '../text/terminal-text.ts'

const CALLER_LENGTH = 60
const options = {
  agentId: ownAgentOption,
  ...pageOptions('entries'),
} as const

export const sessionList = command({
  name: 'session list',
  summary: 'List the callers of an agent: peers by DID, and `local` for this node',
  examples: ['stoa session list --agent-id abc…', 'stoa session list --agent-id abc… --json | jq -r ".[].caller_id"'],
  options: { ...options },
  async run(context, { agentId, limit, cursor, ...flags }) {
    const node = await remoteNode(context, flags)
    const id = await agentIdOf(node, agentId, context.io)
    const { items, next } = await node.sessions(id, { limit, cursor }, { signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, items, {
      none: 'nobody has called this agent',
      headings: ['CALLER', 'AGE', 'LAST TASK'],
      cells: ({ caller_id, updated_at, exchanges }) => [
        printableLine(caller_id, CALLER_LENGTH),
        age(updated_at, now),
        exchanges.at(-1)?.input.slice(0, 400) ?? '',
      ],
    })
    tellMore(context, `stoa session list --agent-id ${printableLine(id)}`, next)
  },
})

export const sessionShow = command({
  name: 'session show',
  summary: 'Show the tasks of a caller and the answers of the agent',
  examples: [
    'stoa session show --agent-id abc…',
    'stoa session show --agent-id abc… --caller-id did:peer:0z6Mk… --limit 5',
  ],
  options: {
    ...options,
    callerId: option('--caller-id <did>', 'the caller from `stoa session list` (default: local)', z.string()),
  },
  async run(context, { agentId, callerId = LOCAL_CALLER, limit, cursor, ...flags }) {
    const node = await moneyNode(context, flags)
    const id = await agentIdOf(node, agentId, context.io)
    const caller = await callerIdOf(node, id, callerId, context.io)
    const { session, next } = await node.session(id, caller, { limit, cursor }, { signal: context.io.signal })
    if (context.json) context.printJson(session)
    else for (const exchange of session.exchanges) show(context, exchange)
    const again = `stoa session show --agent-id ${printableLine(id)} --caller-id ${printableLine(caller)}`
    tellMore(context, again, next)
  },
})

function show(context: Context, exchange: SessionExchange): void {
  const { created_at, duration_ms, payment, input, output, error, canceled } = exchange
  const { bold, dim, red } = context.style.stdout
  const paid = payment === undefined ? '' : ` · ${paymentText(payment)}`
  context.print(dim(`${created_at} · ${(duration_ms / 1000).toFixed(1)} s${paid}`))
  // Text of other parties must not control the terminal (T10).
  context.print(`${bold('>')} ${printable(input)}`)
  const end = canceled === true ? dim : red
  context.print(output === null ? end(printable(error ?? 'no answer')) : printable(output))
  context.print()
}
