import { countText, UsdcText } from '../../config/values.ts'
import { formatPrice } from '../../schema/amount.ts'
import { type ChannelRecord, RECOVER_DAYS } from '../../schema/channel-record.ts'
import { PAGE_ITEMS_MAX } from '../../schema/limits.ts'
import { type Context, command, option } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { agentIdOf, theOne } from '../node-access/references.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import type { RemoteNode } from '../parts.ts'
import { channelLines, channelPeerText, channelStateText } from '../text/channel-text.ts'
import { age, oneOf, pageOptions, printList, tellMore } from '../text/market-text.ts'

/** A search takes up to some thousand requests to the RPC. */
const RECOVER_TIMEOUT_MS = 30 * 60_000

const CHANNEL = {
  name: 'id',
  description: 'id of the channel from `stoa channel list`, or the start of the id',
  missing: 'the id of the channel is missing: `stoa channel list` lists the ids',
}

export const channelList = command({
  name: 'channel list',
  summary: 'List the payment channels of the running node, newest first',
  details:
    'A channel pays many calls of one seller by one deposit. WITH is the other side: its name, or else an agent of the seller. ' +
    'BALANCE is what was deposited and not taken out, FREE is what new calls may cost, and UNCLAIMED is ' +
    'charged and not claimed yet.',
  examples: ['stoa channel list', 'stoa channel list --role buyer', 'stoa channel list --json'],
  options: {
    role: option(
      '--role <role>',
      'only channels by which this node pays (buyer) or is paid (seller)',
      oneOf(['buyer', 'seller']),
    ),
    ...pageOptions('channels'),
  },
  async run(context, { role, limit, cursor, ...flags }) {
    const node = await moneyNode(context, flags)
    const { items, next } = await node.channels({ role, limit, cursor }, { signal: context.io.signal })
    const now = context.parts.clock.now()
    printList(context, items, {
      none: 'no payment channels',
      headings: ['ROLE', 'WITH', 'STATE', 'BALANCE', 'CHARGED', 'UNCLAIMED', 'FREE', 'CALLS', 'USED', 'CHANNEL'],
      cells: (channel) => [
        ...[channel.role, channelPeerText(channel), channelStateText(channel, now)],
        ...[channel.balance, channel.charged, channel.unclaimed, channel.free].map(usdc),
        ...[`${channel.calls}`, age(channel.used_at, now), channel.id],
      ],
    })
    tellMore(context, 'stoa channel list', next)
  },
})

export const channelShow = command({
  name: 'channel show',
  summary: 'Show one payment channel: what lies in it, what was charged and claimed, and what is free',
  examples: ['stoa channel show 0x…'],
  argument: CHANNEL,
  async run(context, flags, given) {
    const node = await moneyNode(context, flags)
    const id = await channelIdOf(node, given, context)
    tell(context, await node.channel(id, { signal: context.io.signal }))
  },
})

export const channelOpen = command({
  name: 'channel open',
  summary: 'Open a payment channel to the seller of an agent',
  details:
    'The running node signs a deposit into a new channel. It opens channels by itself where they are worth their ' +
    'transactions, so this is for a seller that you know you will call often. buyer.channel_deposit_max holds.',
  examples: ['stoa channel open Summarizer', 'stoa channel open abc… --deposit 0.5'],
  argument: {
    name: 'agent',
    description: 'name or id of an agent of the seller',
    missing: 'the name or id of an agent is missing: `stoa agent discover` lists them',
  },
  options: {
    deposit: option(
      '--deposit <usdc>',
      'the deposit in USDC. Default: 20 calls, or what the seller takes at least',
      UsdcText,
    ),
  },
  async run(context, { deposit, ...flags }, given) {
    const node = await moneyNode(context, flags)
    const agentId = await agentIdOf(node, given, context.io)
    const asked = { agent_id: agentId, ...(deposit !== undefined && { deposit: formatPrice(deposit) }) }
    tell(context, await node.openChannel(asked, { signal: context.io.signal }))
  },
})

export const channelClose = leaving('close', {
  summary: 'Leave a payment channel, and get its money back',
  details:
    'No new call is paid by the channel. The node asks the seller for what is free. What the seller does not give within 10 ' +
    'minutes, the node takes out by a withdrawal. That takes two transactions of its account, which cost gas, and the ' +
    'delay of the channel. The command does not wait: `stoa channel show` tells how far it is.',
})

export const channelWithdraw = leaving('withdraw', {
  summary: 'Leave a payment channel without asking its seller',
  details:
    'Takes the money out by a withdrawal: two transactions of the account of the node, which cost gas, and the delay of ' +
    'the channel between them. `stoa channel close` costs nothing if the seller answers.',
})

function leaving(how: 'close' | 'withdraw', { summary, details }: { summary: string; details: string }) {
  return command({
    name: `channel ${how}`,
    ...{ summary, details, examples: [`stoa channel ${how} 0x…`], argument: CHANNEL },
    async run(context: Context, flags, given) {
      const node = await moneyNode(context, flags)
      const id = await channelIdOf(node, given, context)
      tell(context, await node.leaveChannel(id, how, { signal: context.io.signal }))
    },
  })
}

export const channelRecover = command({
  name: 'channel recover',
  summary: 'Find payment channels of a lost ledger on the chain, and get their money back',
  details:
    'Searches the log of the chain for deposits of this wallet. Channels that the ledger does not know are left: the node ' +
    'signs nothing on them, asks the seller for what is free if it is on the market, and takes the rest out by a ' +
    'withdrawal, which costs gas. Channels that the ledger knows stay as they are. Another node with the same wallet has ' +
    'channels that this ledger does not know: they would be left too.',
  examples: ['stoa channel recover', 'stoa channel recover --days 90'],
  options: {
    days: option(
      '--days <n>',
      `how far back the chain is searched (default: ${RECOVER_DAYS.usual})`,
      countText(RECOVER_DAYS.max),
    ),
  },
  async run(context, { days = RECOVER_DAYS.usual, ...flags }) {
    const node = await moneyNode(context, flags)
    const timeoutMs = RECOVER_TIMEOUT_MS
    const found = await node.recoverChannels(days, { signal: context.io.signal, timeoutMs })
    const { recovered, known, empty, older, whole } = found
    printList(context, recovered, {
      none: `no channel of this wallet is missing in the ledger: ${known} with money are known, ${empty} are empty`,
      headings: ['STATE', 'BALANCE', 'CLAIMED', 'FREE', 'CHANNEL'],
      cells: ({ state, balance, claimed, free, id }) => [state, ...[balance, claimed, free].map(usdc), id],
      json: found,
    })
    if (recovered.length > 0) {
      context.tell(`the money of ${counted(recovered.length)} is taken out: \`stoa channel show\` tells how far it is`)
    }
    if (older.length > 0) {
      const was = older.length === 1 ? 'was' : 'were'
      const advice = `give a larger number with --days (up to ${RECOVER_DAYS.max})`
      context.tell(`${counted(older.length)} ${was} opened before these days: ${advice}`)
    }
    if (!whole) context.tell('the RPC did not show all of these days: try another one with --rpc-url of the node')
  },
})

const usdc = (amount: string) => `${amount} USDC`

function counted(channels: number): string {
  return channels === 1 ? '1 channel' : `${channels} channels`
}

/** Resolves a channel id, or the start of an id among the newest channels. @throws CliError, UsageError */
async function channelIdOf(node: RemoteNode, given: string, { io: { signal } }: Context): Promise<string> {
  const start = given.replace(/(…|\.\.\.)$/, '').toLowerCase()
  if (/^0x[0-9a-f]{64}$/.test(start)) return start
  if (!/^0x[0-9a-f]{6,63}$/.test(start)) {
    throw new UsageError('a channel id is 0x and 64 hex digits; the first six or more digits are enough')
  }
  const { items } = await node.channels({ limit: PAGE_ITEMS_MAX }, { signal })
  const found = items.map(({ id }) => id).filter((id) => id.startsWith(start))
  return theOne(start, found, 'channel')
}

function tell(context: Context, channel: ChannelRecord): void {
  context.printResult(channel, channelLines(channel, context.parts.clock.now()))
}
