import type { Tokens } from '../../../buying/tokens.ts'
import { CreatedToken, CreateToken, TokenParams, TokenRecord, TokenRecords } from '../../../schema/token.ts'
import { type Operation, operation } from '../operation.ts'

const shared = { tags: ['tokens'], access: 'private', scope: 'admin' } as const

export function tokenRoutes(tokens: Pick<Tokens, 'create' | 'list' | 'revoke'>): Operation[] {
  return [
    operation({
      ...shared,
      id: 'listTokens',
      method: 'GET',
      path: '/tokens',
      summary: 'Tokens of this API, newest first',
      description: 'Without the tokens themselves, which the node does not keep.',
      response: TokenRecords,
      handler: () => tokens.list(),
    }),
    operation({
      ...shared,
      id: 'createToken',
      method: 'POST',
      path: '/tokens',
      summary: 'Create a token for a program',
      description:
        'Each scope includes the scopes before it: `read`, `execute`, `spend` (within its own budget, inside that ' +
        'of the node), `admin`. The token is shown only once.',
      body: CreateToken,
      example: { name: 'my assistant', scope: 'spend', budget: '5', per_day: '1' },
      response: CreatedToken,
      status: 201,
      location: ({ id }) => `/tokens/${id}`,
      errors: ['TOKENS_TOO_MANY', 'STORE_WRITE_FAILED'],
      handler: ({ body }) => tokens.create(body),
    }),
    operation({
      ...shared,
      id: 'revokeToken',
      method: 'DELETE',
      path: '/tokens/{id}',
      summary: 'Revoke a token',
      description: 'Takes effect at once, also for orders that were placed with it and are not paid yet.',
      params: TokenParams,
      response: TokenRecord,
      errors: ['UNKNOWN_TOKEN', 'STORE_WRITE_FAILED'],
      handler: ({ params }) => tokens.revoke(params.id),
    }),
  ]
}
