import * as z from 'zod'
import { CreatedToken, CreateToken, TokenRecord, TokenRecords } from '../schema/token.ts'
import { at, type Options, type Requests } from './client-requests.ts'

/** Who may do what with a running node, and spend how much, as functions. They throw as those of ApiClient. */
export type AccessCalls = {
  createToken(wanted: CreateToken, options?: Options): Promise<CreatedToken>
  tokens(options?: Options): Promise<TokenRecord[]>
  revokeToken(id: string, options?: Options): Promise<TokenRecord>
}

export function accessCalls({ request }: Requests): AccessCalls {
  return {
    createToken: (wanted, options) => request('/tokens', CreatedToken, options, z.encode(CreateToken, wanted)),
    tokens: (options) => request('/tokens', TokenRecords, options),
    revokeToken: (id, options) => request(at('tokens', id), TokenRecord, options, undefined, 'DELETE'),
  }
}
