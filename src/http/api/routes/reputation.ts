import { AgentParams } from '../../../schema/api.ts'
import {
  FeedbackGiven,
  GiveFeedback,
  IdentityParams,
  OnchainIdentity,
  RegisterOnchain,
  Reputation,
} from '../../../schema/standing.ts'
import type { ReputationCalls } from '../../../trust/reputation.ts'
import { type Operation, operation } from '../operation.ts'
import { TRANSACTION_ERRORS } from './transaction-errors.ts'

const chain = ['CHAIN_UNAVAILABLE', 'CHAIN_WRONG', 'UNKNOWN_IDENTITY'] as const
const writing = ['UNKNOWN_IDENTITY', 'UNKNOWN_AGENT', ...TRANSACTION_ERRORS] as const
const row = { tags: ['reputation'], access: 'private', scope: 'admin', method: 'POST', params: AgentParams } as const

/** ERC-8004 on the node's network (D21). */
export function reputationRoutes(reputation: Omit<ReputationCalls, 'transactions'>): Operation[] {
  return [
    operation({
      id: 'getReputation',
      method: 'GET',
      path: '/agents/reputation/{tokenId}',
      summary: 'What the chain says about an agent',
      description:
        'From the ERC-8004 registries of the network. Anyone may rate: look at the count, and compare with `stats`.',
      tags: row.tags,
      access: 'public',
      scope: 'read',
      params: IdentityParams,
      response: Reputation,
      errors: [...chain, 'OVERLOADED'],
      handler: ({ params, signal }) => reputation.read(BigInt(params.tokenId), signal),
    }),
    operation({
      ...row,
      id: 'registerOnchain',
      path: '/agents/{id}/register-onchain',
      summary: 'Give an own agent an identity on the chain',
      description:
        'Mints an ERC-8004 token, which the listing and the responses of the agent then name. A second transaction ' +
        'puts the token into the registration file. For an agent with a token, the node updates the file if it ' +
        'differs; otherwise it answers ALREADY_REGISTERED. Costs gas: the wallet needs a little ETH.',
      body: RegisterOnchain,
      example: {},
      response: OnchainIdentity,
      status: 201,
      errors: [...writing, 'NOT_YOUR_AGENT', 'ALREADY_REGISTERED'],
      location: ({ token_id }) => `/agents/reputation/${token_id}`,
      handler: ({ params, body, signal }) => reputation.register(params.id, body, signal),
    }),
    operation({
      ...row,
      id: 'giveFeedback',
      path: '/agents/{id}/feedback',
      summary: 'Rate an agent on the chain',
      description:
        'Only for an agent that this node has called. A rating is public and permanent, and costs gas. The node ' +
        'rates only on request, here or by `buyer.rate_every`.',
      body: GiveFeedback,
      example: { score: 95, tag1: 'fast' },
      response: FeedbackGiven,
      errors: [...writing, 'OWN_AGENT', 'NEVER_CALLED'],
      handler: ({ params, body, signal }) => reputation.rate(params.id, body, signal),
    }),
  ]
}
