import type { Config } from '../config/config.ts'
import { ConfigError } from '../config/config-error.ts'
import type { Secrets } from '../config/secrets.ts'
import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/logger.ts'
import type { PaymentChain } from './chain-verdict.ts'
import { createFacilitator, type Facilitator } from './facilitator.ts'
import { withFallbacks } from './facilitator-fallbacks.ts'
import { withPause } from './facilitator-pause.ts'
import { type FacilitatorHeaders, facilitatorHeaders } from './facilitator-token.ts'

type Settings = Pick<Config, 'facilitatorUrl' | 'facilitatorFallbacks' | 'facilitatorHeaders'>
type Keys = Pick<Secrets, 'facilitatorKey' | 'env'>

/** The facilitators of the configuration, combined in their order; undefined if none is set. @throws ConfigError */
export function openFacilitator(
  { facilitatorUrl, facilitatorFallbacks, facilitatorHeaders: named }: Settings,
  secrets: Keys,
  deps: { clock: Clock; logger: Logger; chain: PaymentChain | undefined },
): Facilitator | undefined {
  const own = headersFromVariables(named, secrets)
  const [first, ...others] = [...(facilitatorUrl === undefined ? [] : [facilitatorUrl]), ...facilitatorFallbacks]
  if (first === undefined) return undefined
  const open = (url: string, extra: Record<string, string>) => {
    const signed = facilitatorHeaders(url, secrets.facilitatorKey, deps.clock)
    const headers: FacilitatorHeaders = (...request) => ({ ...signed?.(...request), ...extra })
    return createFacilitator({ url, headers })
  }
  // The configured headers belong to one account: only the main facilitator receives them.
  const main = open(first, facilitatorUrl === undefined ? {} : own)
  if (others.length === 0) return main
  const paused = (one: Facilitator) => withPause(one, deps)
  return withFallbacks([paused(main), ...others.map((url) => paused(open(url, {})))], deps.chain)
}

function headersFromVariables(named: readonly string[], secrets: Pick<Secrets, 'env'>): Record<string, string> {
  const refusals: string[] = []
  const headers: Record<string, string> = {}
  for (const text of named) {
    const at = text.indexOf('=')
    const [name, variable] = [text.slice(0, at).toLowerCase(), text.slice(at + 1)]
    const value = secrets.env(variable)
    if (value === undefined)
      refusals.push(`facilitator.headers_env: ${variable} is not set, or is a secret of this node`)
    else if (!/^[\x20-\x7e]{1,4096}$/.test(value))
      refusals.push(`facilitator.headers_env: ${variable} holds no text for a header`)
    else headers[name] = value
  }
  if (refusals.length > 0) throw new ConfigError(refusals)
  return headers
}
