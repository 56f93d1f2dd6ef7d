import { walletAdvice } from '../payments/wallet-key.ts'
import type { AlarmRecord } from '../schema/alarm.ts'
import type { NodeStatus } from '../schema/api.ts'

/* Alarms about the state of a node. */

type StateAlarm = Omit<AlarmRecord, 'dismissed_at'>
export type AlarmStatus = Pick<
  NodeStatus,
  | 'reachability'
  | 'connected_peers'
  | 'agents'
  | 'search'
  | 'trading'
  | 'refused_change'
  | 'wallet_before'
  | 'ledger_restored_at'
  | 'chain_wrong'
> &
  Partial<Pick<NodeStatus, 'wallet_address'>>

export function stoppedTrading({ trading }: AlarmStatus): StateAlarm[] {
  if (trading?.state !== 'stopped') return []
  const title = 'This node has stopped trading'
  const text = `${sentence(trading.reason ?? 'Its ledger cannot be trusted')}. ${sentence(trading.fix ?? 'See the log')}.`
  return [
    { ...{ id: 'trading_stopped', kind: 'trading_stopped', severity: 'bad', title, text, count: 1 }, mark: 'now' },
  ]
}

/** Hides the reason, because it names the database. A reader of alarms may not know that name. */
export function refusedChange({ refused_change: reason }: AlarmStatus): StateAlarm[] {
  if (reason === undefined) return []
  const title = 'The database of the ledger does not take changes'
  const text =
    'It could not write a change within the last minute, for example because its disk is full. Calls that need such a change fail ' +
    'or wait. stoa doctor says why. This alarm ends a minute after the last such change.'
  return [
    { ...{ id: 'change_refused', kind: 'change_refused', severity: 'bad', title, text, count: 1 }, mark: 'holds' },
  ]
}

export function wrongChain({ chain_wrong: reason }: AlarmStatus): StateAlarm[] {
  if (reason === undefined) return []
  const title = 'The RPC endpoint serves another chain'
  const text = `${sentence(reason)}. The node believes nothing that it says: balances are unknown, and payments cannot be checked or confirmed.`
  return [{ ...{ id: 'chain_wrong', kind: 'chain_wrong', severity: 'bad', title, text, count: 1 }, mark: 'holds' }]
}

/** A dismissal holds for this change alone. */
export function changedWallet({ wallet_address: wallet, wallet_before: before }: AlarmStatus): StateAlarm[] {
  if (wallet === undefined || before === undefined) return []
  const title = 'This node uses another wallet than before'
  const text = `It used ${before}, and now uses ${wallet}. ${walletAdvice(before)}. If you did, dismiss this alarm.`
  const about = { id: 'wallet_changed', kind: 'wallet_changed', severity: 'warn', title, text, count: 1 } as const
  return [{ ...about, mark: `${before} ${wallet}`.toLowerCase() }]
}

/** A dismissal holds for this restore alone. */
export function restoredLedger({ ledger_restored_at: at }: AlarmStatus): StateAlarm[] {
  if (at === undefined) return []
  const title = 'The ledger was restored from a backup'
  const text =
    `The node found an older copy of its ledger at ${at}. It does not know what was bought, sold, refunded or sent after the backup. ` +
    'Orders without a signed payment and open workflows were ended, because they may have been bought already. Look at the wallet on ' +
    'the chain before you refund, send or order again. Tokens and workers that were revoked after the backup are valid again: revoke ' +
    'them, and check the budget. Then dismiss this alarm.'
  const about = { id: 'ledger_restored', kind: 'ledger_restored', severity: 'warn', title, text, count: 1 } as const
  return [{ ...about, mark: at }]
}

export function unreached({ reachability, connected_peers: peers, agents, search }: AlarmStatus): StateAlarm[] {
  if (peers === 0) {
    const tried = search?.tried.join(', ') || 'nothing'
    const fix = search?.fix ?? 'Start the node with --bootstrap and the address of a peer.'
    const text = `The node cannot buy or sell until it meets a peer. Tried so far: ${tried}. ${sentence(fix)}`
    const title = 'This node is connected to no peer'
    return [{ ...{ id: 'no_peers', kind: 'no_peers', severity: 'warn', title, text, count: 1 }, mark: 'none' }]
  }
  if (reachability.state !== 'unreachable' || agents.local === 0) return []
  const { reason = 'Buyers outside this network cannot call your agents.', fix = '' } = reachability
  const title = 'Buyers cannot reach this node'
  const text = `${reason} ${fix}`.trim()
  return [{ ...{ id: 'unreachable', kind: 'unreachable', severity: 'bad', title, text, count: 1 }, mark: 'none' }]
}

/** `Wait a minute` from `wait a minute`. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}
