import type { Config } from '../config/config.ts'
import { type Finding, fail, ok, skip, warn } from '../lib/finding.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import type { ChannelSums } from '../schema/channel-record.ts'

export type ChannelChecksDeps = {
  config: {
    rpcUrl?: string | undefined
    seller: Pick<Config['seller'], 'channels'>
    buyer: Pick<Config['buyer'], 'channels'>
  }
  /** Why channels cannot be settled here. Undefined: there is no RPC. */
  channelTrouble: ((signal: AbortSignal) => Promise<string | undefined>) | undefined
  channelSums(): Promise<ChannelSums>
  alarms: { list(): Promise<readonly AlarmRecord[]> }
}

/** Checks what payment channels need in both roles, and tells what is wrong with those that exist. */
export async function checkChannels(deps: ChannelChecksDeps, signal: AbortSignal): Promise<Finding | Finding[]> {
  const { paying, paid } = await deps.channelSums()
  const { seller, buyer } = deps.config
  const sells = seller.channels !== 'off' || paid.channels > 0
  const buys = buyer.channels.mode !== 'off' || paying.channels > 0
  if (!sells && !buys) return skip('off: buyer.channels and seller.channels in config.yaml')
  const alarms = (await deps.alarms.list()).filter(({ kind }) => kind.startsWith('channel_'))
  const found = [...(await needed({ sells, buys }, deps, signal)), ...alarms.map(ofAlarm)]
  return found.length > 0 ? found : ok(textOf({ paying, paid }))
}

async function needed(
  roles: { sells: boolean; buys: boolean },
  { config, channelTrouble }: ChannelChecksDeps,
  signal: AbortSignal,
): Promise<Finding[]> {
  if (config.rpcUrl === undefined || channelTrouble === undefined) {
    const what = [...(roles.sells ? ['offers none'] : []), ...(roles.buys ? ['opens none'] : [])].join(' and ')
    return [
      warn(`without an RPC endpoint this node ${what}`, 'set ETHEREUM_RPC_URL or --rpc-url, and restart the node'),
    ]
  }
  if (!roles.sells) return []
  const trouble = await channelTrouble(signal)
  return trouble === undefined ? [] : [fail(trouble, 'see docs/channels.md, A seller')]
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
