import { inspect } from 'node:util'
import type { Hex } from '../schema/primitives.ts'
import { ConfigError } from './config-error.ts'
import type { Env, Environment } from './env.ts'

/** Keys and addresses of language-model providers, from the environment. */
export type ProviderKeys = {
  openai?: string
  openaiBaseUrl?: string
  anthropic?: string
  google?: string
  openrouter?: string
}

/** Values that must never be printed, logged or sent. As text, as JSON and under `inspect` they show `[secrets]`. */
export type Secrets = {
  readonly walletKey: Hex | undefined
  readonly apiToken: string | undefined
  readonly providerKeys: ProviderKeys
  /** The key of a hosted facilitator: `CDP_API_KEY_ID` and `CDP_API_KEY_SECRET`. */
  readonly facilitatorKey: { id: string; secret: string } | undefined
  /** The PostgreSQL database that keeps the ledger: `DATABASE_URL`. Undefined: the ledger is in `stoa.db`. */
  readonly database: { url: string } | undefined
  /** The variable that an agent's `api_key_env` names. Returns undefined for the node's own secrets. */
  env(name: string): string | undefined
}

/** Refused in `api_key_env`: an agent that named one would send the node's money or keys to a model provider. */
export const ownSecrets =
  /PRIVATE_KEY|MNEMONIC|SEED_PHRASE|^(NODE_API_TOKEN|STOA_API_TOKEN|STOA_JOIN_TOKEN|DATABASE_URL|ETHEREUM_RPC_URL|CDP_API_KEY_SECRET)$/

/** @throws ConfigError if the role keys contradict each other */
export function createSecrets(env: Env, environment: Environment): Secrets {
  return unprintable<Secrets>({
    walletKey: walletKeyOf(env),
    apiToken: env.NODE_API_TOKEN,
    providerKeys: unprintable<ProviderKeys>({
      ...given('openai', env.OPENAI_API_KEY),
      ...given('openaiBaseUrl', env.OPENAI_BASE_URL),
      ...given('anthropic', env.ANTHROPIC_API_KEY),
      ...given('google', env.GOOGLE_API_KEY),
      ...given('openrouter', env.OPENROUTER_API_KEY),
    }),
    facilitatorKey: facilitatorKeyOf(environment),
    database: env.DATABASE_URL === undefined ? undefined : unprintable({ url: env.DATABASE_URL }),
    env(name) {
      if (ownSecrets.test(name) || !Object.hasOwn(environment, name)) return undefined
      return environment[name]?.trim() || undefined
    },
  })
}

function facilitatorKeyOf(environment: Environment): { id: string; secret: string } | undefined {
  const [id, secret] = [environment.CDP_API_KEY_ID?.trim(), environment.CDP_API_KEY_SECRET?.trim()]
  return id && secret ? unprintable({ id, secret }) : undefined
}

/** ETHEREUM_PRIVATE_KEY, else the role's key. Two different role keys would be two wallets, and a node has one. */
function walletKeyOf(env: Env): Hex | undefined {
  const { ETHEREUM_PRIVATE_KEY: own, SELLER_PRIVATE_KEY: seller, BUYER_PRIVATE_KEY: buyer } = env
  if (own !== undefined) return own
  if (seller !== undefined && buyer !== undefined && seller !== buyer) {
    throw new ConfigError(
      'SELLER_PRIVATE_KEY and BUYER_PRIVATE_KEY are set to different keys, but a node has only one wallet: unset one of them, or set ETHEREUM_PRIVATE_KEY',
    )
  }
  return seller ?? buyer
}

/** Hides properties from spreading, JSON, `inspect` and `for in`. */
function unprintable<T extends object>(fields: T): T {
  const sealed = {}
  for (const [name, value] of Object.entries(fields)) Object.defineProperty(sealed, name, { value })
  const shown = { value: () => '[secrets]' }
  Object.defineProperties(sealed, { toJSON: shown, toString: shown, [inspect.custom]: shown })
  return Object.freeze(sealed) as T
}

function given<K extends keyof ProviderKeys>(name: K, value: string | undefined): { [P in K]?: string } {
  return value === undefined ? {} : ({ [name]: value } as { [P in K]?: string })
}
