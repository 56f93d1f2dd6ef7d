import { llmProviders } from '../../agents/model-name.ts'
import { keyVariableOf } from '../../agents/providers.ts'
import type { OriginalConfig } from '../../config/original-config.ts'
import { PathText, UrlText } from '../../config/values.ts'
import type { AgentDefinition } from '../../schema/agent.ts'
import type { Hex, Network } from '../../schema/primitives.ts'
import { commonOptions, flag, option, type ValuesOf } from '../command.ts'
import { agentOptions } from '../commands/agent-config.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { oneOf } from '../text/market-text.ts'

const walletActions = ['make', 'import', 'keep'] as const
export type WalletAction = (typeof walletActions)[number]

const providerNames = [...llmProviders, 'none'] as const
export type ProviderName = (typeof providerNames)[number]

/** What `stoa init` will do, from flags and answers. Nothing is written before all choices are made. */
export type Choices = {
  network?: Network | undefined
  rpcUrl?: string | undefined
  facilitatorUrl?: string | undefined
  /** True if the node searches for the market in the public DHT. */
  publicDht?: boolean | undefined
  /** Undefined: use the existing wallet, or create one. */
  importKey?: Hex | undefined
  /** Variables for keys.env. */
  keys: Readonly<Record<string, string>>
  agent?: AgentDefinition | undefined
  /** Whose models to use, where a flag says so. */
  provider?: ProviderName | undefined
  original?: OriginalConfig | undefined
}

/** The variable that stores a provider's key. Undefined if the provider needs no key. */
export function keyVariableFor(provider: ProviderName): string | undefined {
  return provider === 'none' || provider === 'ollama' ? undefined : keyVariableOf(provider)
}

export const initOptions = {
  network: networkOptions.network,
  rpcUrl: networkOptions.rpcUrl,
  facilitatorUrl: option('--facilitator-url <url>', 'x402 facilitator that settles payments to this node', UrlText),
  wallet: option(
    '--wallet <action>',
    `${walletActions.join(', ')} (default: keep an existing wallet, otherwise make one)`,
    oneOf(walletActions),
  ),
  walletKeyFile: option('--wallet-key-file <path>', 'file with the key to import; - reads standard input', PathText),
  provider: option(
    '--provider <name>',
    `provider of the language models: ${providerNames.join(', ')}`,
    oneOf(providerNames),
  ),
  modelKeyFile: option(
    '--model-key-file <path>',
    'file with the key of that provider; - reads standard input',
    PathText,
  ),
  modelUrl: option('--model-url <url>', 'base URL of an openai-compatible provider', UrlText),
  ...agentOptions,
  publicDht: flag(
    '--public-dht',
    'find the market in the public DHT of libp2p, which shows the address of this node (default)',
  ),
  publicDhtOff: flag('--no-public-dht', 'do not use the public DHT; give peers with --bootstrap'),
  import: option(
    '--import <path>',
    'import agents.yaml and config.yaml of the original node: their directory or one of the files; asks no questions',
    PathText,
  ),
  yes: flag('-y, --yes', 'ask no questions: settings without a flag keep their value or get the default'),
  ...commonOptions,
} as const
export type InitFlags = ValuesOf<typeof initOptions>
