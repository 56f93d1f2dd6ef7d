import { CodedError } from '../lib/errors.ts'

export type MarketErrorCode =
  | 'UNKNOWN_AGENT'
  | 'OVER_PRICE'
  | 'OVER_BUDGET'
  | 'LISTING_MISMATCH'
  | 'INPUT_TOO_LARGE'
  | 'SELLER_UNREACHABLE'
  | 'SELLER_FAILED'
  | 'RESULT_PENDING'
  | 'DEADLINE'

/** Why a purchase did not happen, or did not end, on the buyer's side. */
export class MarketError extends CodedError<MarketErrorCode> {
  override name = 'MarketError'
  readonly correlationId: string | undefined

  constructor(code: MarketErrorCode, message: string, options: ErrorOptions & { correlationId?: string } = {}) {
    super(code, message, options)
    this.correlationId = options.correlationId
  }
}
