import * as z from 'zod'
import { type EventType, encodeEvent, eventTypes, type NodeEvent } from '../../schema/events.ts'
import { command, repeated } from '../command.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { oneOf } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'

const TYPE_WIDTH = 10
const LINE_LENGTH_MAX = 200
const EventTypeText = z.array(oneOf(eventTypes as [EventType, ...EventType[]]))

export const events = command({
  name: 'events',
  summary: 'Show the events of the running node as they happen',
  details:
    'The command prints one line per event until Ctrl-C. With --json, each line is one JSON object {id, type, data}. After a lost connection the command reconnects and continues where it stopped.',
  examples: [
    'stoa events',
    'stoa events --type payment --type order',
    'stoa events --json | jq -c "select(.type == \\"payment\\")"',
  ],
  options: {
    type: repeated('--type <type>', `only these: ${eventTypes.join(', ')}; may be repeated`, EventTypeText),
  },
  async run(context, { type, ...flags }) {
    const node = await remoteNode(context, flags)
    const { signal, stdout } = context.io
    let isLost = false
    const onLost = () => {
      if (!isLost) context.tell('the connection to the node was lost; reconnecting')
      isLost = true
    }
    for await (const event of node.events({ types: type, signal, onLost })) {
      isLost = false
      // One line per event, also on a terminal.
      if (context.json) stdout.write(`${JSON.stringify(encodeEvent(event))}\n`)
      else context.print(`${event.type.padEnd(TYPE_WIDTH)}${printableLine(wordsOf(event), LINE_LENGTH_MAX)}`)
    }
  },
})

function wordsOf(event: NodeEvent): string {
  const { type } = event
  switch (type) {
    case 'reset':
      return 'some events were missed'
    case 'listing':
      return `${event.data.change} ${event.data.agent_id} ${event.data.name ?? ''}`
    case 'order':
      return `${event.data.status} ${event.data.id} ${event.data.error?.message ?? ''}`
    case 'payment': {
      const { direction, state, amount, agent_name, agent_id, tx_hash } = event.data
      return `${direction} ${state} ${amount} USDC ${agent_name ?? agent_id} ${tx_hash}`
    }
    case 'workflow':
      return `${event.data.status} ${event.data.id} ${event.data.name ?? ''}`
    case 'approval':
      return `${event.data.status} ${event.data.id} ${event.data.amount} USDC ${event.data.agent_name}`
    case 'budget':
      return `${event.data.spent_today} of ${event.data.per_day ?? 'no limit'} spent today`
    case 'status': {
      const { connected_peers: peers, agents, settlement } = event.data
      return `${peers} ${peers === 1 ? 'peer' : 'peers'}, ${agents.known} agents known, ${settlement.pending} payments pending`
    }
  }
}
