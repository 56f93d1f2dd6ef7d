import type { Config } from '../config/config.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import type { ChannelSums } from '../schema/channel-record.ts'
import type { OwnAgent } from '../schema/own-agent.ts'

export type ChannelChecksDeps = {
  config: {
    rpcUrl?: string | undefined
    seller: Pick<Config['seller'], 'channels'>
    buyer: Pick<Config['buyer'], 'channels'>
  }
  agents(): readonly Pick<OwnAgent, 'price' | 'on_channels_only'>[]
  /** Why channels cannot be settled here. Undefined: there is no RPC. */
  channelTrouble: ((signal: AbortSignal) => Promise<string | undefined>) | undefined
  channelSums(): Promise<ChannelSums>
  alarms: { list(): Promise<readonly AlarmRecord[]> }
}

/** Checks what payment channels need in both roles, and tells what is wrong with those that exist. */
export async function checkChannels(deps: ChannelChecksDeps, signal: AbortSignal): Promise<Finding | Finding[]> {
  const { paying, paid } = await deps.channelSums()
  const { seller, buyer } = deps.config
  const agents = deps.agents().filter(({ price }) => price > 0n)
  const offers = seller.channels !== 'off' && agents.length > 0
  const buys = buyer.channels.mode !== 'off' || paying.channels > 0
  if (!offers && !buys && paid.channels === 0) return skip('off: buyer.channels and seller.channels in config.yaml')
  const mustSettle = paid.channels > 0 || (offers && agents.some((agent) => agent.on_channels_only === true))
  const alarms = (await deps.alarms.list()).filter(({ kind }) => kind.startsWith('channel_'))
  const found = [...(await needed({ offers, buys, mustSettle }, deps, signal)), ...alarms.map(ofAlarm)]
  return found.length > 0 ? found : ok(textOf({ paying, paid }))
}

async function needed(
  { offers, buys, mustSettle }: Record<'offers' | 'buys' | 'mustSettle', boolean>,
  { config, channelTrouble }: ChannelChecksDeps,
  signal: AbortSignal,
): Promise<Finding[]> {
  if (config.rpcUrl === undefined || channelTrouble === undefined) {
    const what = [...(offers || mustSettle ? ['offers none'] : []), ...(buys ? ['opens none'] : [])].join(' and ')
    return [
      warn(`without an RPC endpoint this node ${what}`, 'set ETHEREUM_RPC_URL or --rpc-url, and restart the node'),
    ]
  }
  if (!offers && !mustSettle) return []
  const trouble = await channelTrouble(signal)
  if (trouble === undefined) return []
  // Agents that are sold without channels too lose nothing: each call is paid for by itself.
  return mustSettle ? [fail(trouble, 'see docs/channels.md, A seller')] : [skip(trouble)]
}

function ofAlarm({ id, title, text, amount }: AlarmRecord): Finding {
  const money = amount === undefined ? '' : `, ${amount} USDC`
  return warn(`${title}${money}. ${text}`, `stoa channel list shows the channels; stoa alarms dismiss ${id} hides this`)
}

function textOf({ paying, paid }: ChannelSums): string {
  const many = (number: number) => (number === 1 ? '1 channel' : `${number} channels`)
  const told = [
    ...(paying.channels > 0 ? [`${many(paying.channels)} to sellers with ${paying.locked} USDC`] : []),
    ...(paid.channels > 0 ? [`${many(paid.channels)} of buyers that owe ${paid.unclaimed} USDC`] : []),
  ]
  return told.length === 0 ? 'none yet' : told.join(', ')
}
