import type { Chain } from '../chain/chain.ts'
import { createErc8004, encodeGiveFeedback, registeredToken } from '../chain/erc8004.ts'
import type { Clock } from '../lib/clock.ts'
import { CodedError } from '../lib/errors.ts'
import { sameAddress } from '../payments/assets.ts'
import { Sender } from '../payments/sender.ts'
import type { Wallet } from '../payments/wallet.ts'
import type { Listing } from '../schema/listing.ts'
import type { FeedbackGiven, GiveFeedback, OnchainIdentity, Reputation } from '../schema/standing.ts'
import type { TransactionCalls } from '../schema/transaction.ts'
import type { Transactions } from '../store/transactions.ts'
import { createRegistration, REGISTER, type RegistrationDeps } from './registration.ts'

export type ReputationDeps = Pick<RegistrationDeps, 'relist' | 'imageOf' | 'publicUrl' | 'waits'> & {
  chain: Pick<Chain, 'network' | 'request'>
  wallet: Pick<Wallet, 'address' | 'signTransaction'>
  transactions: Transactions
  clock: Clock
  listing(agentId: string): Listing | undefined
  calls(agentId: string): number
}

/** ERC-8004: reads the chain's ratings of agents and writes this node's own. Each method may throw ChainError. */
export interface ReputationApi {
  /** @throws CodedError UNKNOWN_IDENTITY */
  read(tokenId: bigint, signal?: AbortSignal): Promise<Reputation>
  /** Reads the reputation of a listing's token if the seller owns the token. A listing can name any token. */
  ofListing(listing: Listing, signal?: AbortSignal): Promise<Reputation | undefined>
  /** Mints the identity of an own agent, or updates its file. Costs gas. @throws TransactionError, CodedError */
  register(agentId: string, options: { uri?: string | undefined }, signal: AbortSignal): Promise<OnchainIdentity>
  /** Rates another seller's agent that this node has called. Costs gas. @throws TransactionError, CodedError */
  rate(agentId: string, feedback: GiveFeedback, signal: AbortSignal): Promise<FeedbackGiven>
  /** The only sender of this node's transactions, sent and new ones. */
  readonly transactions: Pick<Sender, 'open' | 'send' | 'resume' | 'replace' | 'abandon'>
}

export type ReputationCalls = Pick<ReputationApi, 'read' | 'register' | 'rate'> & { transactions: TransactionCalls }

export function createReputation(deps: ReputationDeps): ReputationApi {
  const { chain, wallet, transactions, clock } = deps
  const erc8004 = createErc8004(chain)
  const { identity, reputation } = erc8004.registries
  const { network } = chain
  const sender = new Sender({
    ...{ chain, wallet, transactions, clock },
    ...deps.waits,
    tokenIn({ purpose }, logs) {
      if (!purpose.startsWith(REGISTER)) return undefined
      const token = registeredToken(logs, identity, wallet.address)
      // Token ids start at 0, so compare with undefined.
      if (token === undefined) return undefined
      return { agentId: purpose.slice(REGISTER.length), network, tokenId: token.toString() }
    },
  })
  const registration = createRegistration({ ...deps, erc8004, network, sender })

  async function summary(tokenId: bigint, signal?: AbortSignal): Promise<Reputation> {
    const { count, value, decimals } = await erc8004.summary(tokenId, signal)
    const score = count === 0 ? null : Math.round((Number(value) / 10 ** decimals) * 100) / 100
    return { token_id: `${tokenId}`, network, registry: reputation, count, score, value: `${value}`, decimals }
  }

  async function isOf(listing: Listing, tokenId: bigint, signal?: AbortSignal): Promise<boolean> {
    const holders = await erc8004.holders(tokenId, signal)
    if (holders === undefined || listing.network !== network) return false
    return sameAddress(holders.owner, listing.pay_to) || sameAddress(holders.wallet, listing.pay_to)
  }

  function listed(agentId: string): Listing {
    const listing = deps.listing(agentId)
    if (listing !== undefined) return listing
    throw new CodedError('UNKNOWN_AGENT', `no agent ${agentId} is listed: GET /agents lists the agents`)
  }

  return {
    transactions: sender,
    async read(tokenId, signal) {
      const [holders, said] = await Promise.all([erc8004.holders(tokenId, signal), summary(tokenId, signal)])
      if (holders !== undefined) return said
      throw new CodedError('UNKNOWN_IDENTITY', `the registry ${identity} on ${network} has no token ${tokenId}`)
    },
    async ofListing(listing, signal) {
      const tokenId = tokenOf(listing)
      if (tokenId === undefined || !(await isOf(listing, tokenId, signal))) return undefined
      return summary(tokenId, signal)
    },
    async register(agentId, { uri }, signal) {
      const listing = listed(agentId)
      if (!listing.local) throw new CodedError('NOT_YOUR_AGENT', 'only the node that hosts an agent registers it')
      return registration(listing, uri, signal)
    },
    async rate(agentId, { score, tag1 = '', tag2 = '' }, signal) {
      const listing = listed(agentId)
      if (listing.local) throw new CodedError('OWN_AGENT', 'a node cannot rate its own agents: the registry refuses it')
      if (deps.calls(agentId) === 0) {
        throw new CodedError('NEVER_CALLED', 'this node has never called this agent: there is nothing to rate')
      }
      const tokenId = tokenOf(listing)
      if (tokenId === undefined || !(await isOf(listing, tokenId, signal))) {
        const why = tokenId === undefined ? 'lists no token' : `lists token ${tokenId}, which is not its seller's`
        throw new CodedError('UNKNOWN_IDENTITY', `this agent ${why}: it cannot be rated on the chain`)
      }
      // Hundredths, so that the stored score equals the given score.
      const value = BigInt(Math.round(score * 100))
      const endpoint = `x402+libp2p:${agentId}`
      const data = encodeGiveFeedback({ tokenId, value, decimals: 2, tag1, tag2, endpoint })
      const { hash } = await sender.send(() => ({ purpose: `feedback ${agentId}`, to: reputation, data }), signal)
      return { agent_id: agentId, token_id: `${tokenId}`, network, registry: reputation, score, tx_hash: hash }
    },
  }
}

/** Parses the token id of a listing. The text comes from the seller and may be invalid. */
function tokenOf({ token_id }: Listing): bigint | undefined {
  return token_id !== undefined && /^(0|[1-9][0-9]{0,77})$/.test(token_id) && BigInt(token_id) < 2n ** 256n
    ? BigInt(token_id)
    : undefined
}
