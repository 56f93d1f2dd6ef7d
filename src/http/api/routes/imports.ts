import type { importing } from '../../../listings/imports.ts'
import { AgentParams, Listings } from '../../../schema/api.ts'
import { ImportAgent } from '../../../schema/import.ts'
import { Listing } from '../../../schema/listing.ts'
import { type Operation, operation } from '../operation.ts'

export type ImportsPart = ReturnType<typeof importing>

const row = { tags: ['agents'], access: 'private', scope: 'admin' } as const

export function importRoutes(imports: ImportsPart): Operation[] {
  return [
    operation({
      ...row,
      id: 'listImports',
      method: 'GET',
      path: '/imports',
      summary: 'Imported agents',
      scope: 'read',
      response: Listings,
      handler: () => imports.all(),
    }),
    operation({
      ...row,
      id: 'importAgent',
      method: 'POST',
      repeatable: true,
      path: '/imports',
      summary: 'Import an agent of a seller that lists nothing here',
      description:
        'Only this node knows an imported agent. It is unsigned and marked with `imported`. The node asks the ' +
        'seller for the price, unless the agent is free or `pay_to` is given. It refuses a price, network or asset ' +
        'that differs from the request. Importing the same agent again replaces it.',
      body: ImportAgent,
      example: { peer: '/ip4/203.0.113.7/tcp/4001/p2p/12D3KooW…', agent_id: 'did:key:z6Mk…', price: '0.05' },
      response: Listing,
      status: 201,
      errors: ['IMPORT_REFUSED', 'LISTING_MISMATCH', 'SELLER_UNREACHABLE', 'STORE_WRITE_FAILED'],
      location: ({ id }) => `/agents/${id}`,
      handler: ({ body, signal }) => imports.add(body, signal),
    }),
    operation({
      ...row,
      id: 'removeImport',
      method: 'DELETE',
      path: '/imports/{id}',
      summary: 'Remove an imported agent',
      params: AgentParams,
      response: Listing,
      errors: ['UNKNOWN_AGENT', 'STORE_WRITE_FAILED'],
      handler: ({ params }) => imports.remove(params.id),
    }),
  ]
}
