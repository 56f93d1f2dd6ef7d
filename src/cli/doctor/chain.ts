import { ok, skip, warn } from '../../lib/finding.ts'
import { checkClock, checkFacilitator, checkRpc, type Surroundings } from '../../node/chain-checks.ts'
import { readWalletKey } from '../../payments/wallet-key.ts'
import { priceOf } from '../../schema/agent.ts'
import { readBalance } from '../commands/wallet.ts'
import type { Check, Patient } from './check.ts'

const around = ({ config, parts, agents }: Patient): Surroundings => ({
  ...{ config, fetch: parts.fetch, clock: parts.clock },
  sells: agents.some((agent) => priceOf(agent) > 0n),
})

const rpc: Check = { id: 'rpc', title: 'Chain RPC', run: (patient, signal) => checkRpc(around(patient), signal) }
const clock: Check = { id: 'clock', title: 'Clock', run: (patient, signal) => checkClock(around(patient), signal) }
const facilitator: Check = {
  id: 'facilitator',
  title: 'Facilitator',
  run: (patient, signal) => checkFacilitator(around(patient), signal),
}

const balance: Check = {
  id: 'balance',
  title: 'Balance',
  async run({ config, secrets, parts, running }, signal) {
    const known = running === undefined ? await ownAddress(config.dataDir, secrets) : undefined
    if (running === undefined && known === undefined) return skip('no wallet yet')
    try {
      const found =
        known === undefined
          ? await running!.node.balance({ signal })
          : await readBalance(known, config, { parts }, signal)
      if (found.balance_atomic !== '0') return ok(`${found.balance} ${found.symbol}`)
      const source =
        config.network === 'eip155:84532'
          ? 'get test USDC at https://faucet.circle.com and choose Base Sepolia'
          : 'send USDC on Base to this address'
      return warn(`0 ${found.symbol}: the node cannot buy from paid agents`, `fund ${found.address}: ${source}`)
    } catch {
      return skip('not known: the chain does not answer')
    }
  },
}

export const chainChecks: readonly Check[] = [rpc, clock, balance, facilitator]

async function ownAddress(dataDir: string, secrets: Patient['secrets']) {
  const key = await readWalletKey(dataDir, secrets).catch(() => undefined)
  if (key === undefined) return undefined
  const { walletAddress } = await import('../../payments/wallet.ts')
  return walletAddress(key)
}
