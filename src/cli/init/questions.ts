import { confirm, intro, log, outro, select } from '@clack/prompts'
import * as z from 'zod'
import { llmProviders } from '../../agents/model-name.ts'
import { modelsOf } from '../../agents/model-server.ts'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { ApiKeyText, PrivateKeyText, UrlText, UsdcText } from '../../config/values.ts'
import type { AgentDefinition } from '../../schema/agent.ts'
import { networkText } from '../../schema/network-kind.ts'
import { type Hex, networks } from '../../schema/primitives.ts'
import type { Context } from '../command.ts'
import { readDefinition } from '../commands/agent-config.ts'
import { placedWords } from '../commands/program-words.ts'
import { answered, hidden, line, UserCanceled } from '../prompts.ts'
import { splitWords } from '../text/slash-line.ts'
import { type Choices, type InitFlags, keyVariableFor, type ProviderName, type WalletAction } from './choices.ts'

type SetupInput = { config: Config; secrets: Secrets; flags: InitFlags; flagged: Choices }

/**
 * Asks on the terminal for everything that the flags leave open. @returns undefined if the user leaves; nothing is
 * changed then
 */
export async function askChoices(context: Context, given: SetupInput): Promise<Choices | undefined> {
  try {
    intro(`Set up a Stoa node in ${given.config.dataDir}`)
    const choices = await ask(context, given)
    outro('Done')
    return choices
  } catch (error) {
    if (!(error instanceof UserCanceled)) throw error
    outro('Nothing was changed')
    return undefined
  }
}

async function ask(context: Context, { config, secrets, flags, flagged }: SetupInput): Promise<Choices> {
  const network =
    flags.network ??
    (await answered(
      select({
        message: 'On which network do you pay and get paid?',
        options: networks.map((value) => ({ value, label: networkText(value), hint: value })),
        initialValue: config.network,
      }),
    ))
  const needsFacilitator =
    network !== 'eip155:84532' && flags.facilitatorUrl === undefined && config.facilitatorUrl === undefined
  const facilitatorUrl = needsFacilitator
    ? await line('URL of the x402 facilitator that settles payments to you (empty: you only buy)', UrlText, '')
    : flags.facilitatorUrl
  const publicDht =
    flags.publicDht ??
    (config.p2p.bootstrap.length > 0
      ? undefined
      : await answered(
          confirm({
            message: 'Find the market in the public DHT of libp2p? The DHT shows the address of this node.',
            initialValue: config.p2p.publicDht,
          }),
        ))
  const importKey = flagged.importKey ?? (await askWallet(config, secrets, flags.wallet))
  const provider =
    flags.provider ??
    (await answered(
      select<ProviderName>({
        message: 'Which provider of language models do your agents use?',
        options: (['none', ...llmProviders] as const).map((value) => ({ value, label: labels[value] ?? value })),
        initialValue: 'none',
      }),
    ))
  const keys = Object.keys(flagged.keys).length > 0 ? flagged.keys : await askKeys(secrets, provider, flags.modelUrl)
  const models = await askServer(context, secrets, provider, keys)
  for (const key of Object.values(keys)) context.redactor.add(key)
  return {
    network,
    rpcUrl: flags.rpcUrl,
    facilitatorUrl: facilitatorUrl || undefined,
    publicDht,
    importKey,
    keys,
    agent: await askAgent(flags, provider, models),
  }
}

const labels: Partial<Record<ProviderName, string>> = {
  none: 'none: you use built-in agents or your own programs, or you only buy',
  ollama: 'ollama on this machine',
  'openai-compatible': 'an OpenAI-compatible server: vLLM, LM Studio, llama.cpp …',
}

/** @returns the key to import; undefined: use the existing wallet, or create one */
async function askWallet(config: Config, secrets: Secrets, deed: WalletAction | undefined): Promise<Hex | undefined> {
  const { readWalletKey } = await import('../../payments/wallet-key.ts')
  if (deed === 'make' || deed === 'keep') return undefined
  if ((await readWalletKey(config.dataDir, secrets)) !== undefined) return undefined
  const chosen =
    deed ??
    (await answered(
      select<WalletAction>({
        message: 'The wallet for payments',
        options: [
          { value: 'make', label: 'make a new wallet' },
          { value: 'import', label: 'import a private key' },
        ],
      }),
    ))
  if (chosen === 'make') return undefined
  const typed = await hidden('Private key of the wallet (64 hex digits; not shown)', PrivateKeyText)
  return PrivateKeyText.parse(typed)
}

async function askKeys(
  secrets: Secrets,
  provider: ProviderName,
  modelUrl: string | undefined,
): Promise<Record<string, string>> {
  const variable = keyVariableFor(provider)
  if (variable === undefined) return {}
  const keys: Record<string, string> = {}
  if (provider === 'openai-compatible') {
    const known = modelUrl ?? secrets.providerKeys.openaiBaseUrl
    keys.OPENAI_BASE_URL = known ?? (await line('Base URL of the server', UrlText, 'http://127.0.0.1:8000/v1'))
  }
  if (secrets.env(variable) !== undefined) {
    const again = await answered(
      confirm({ message: `${variable} is already set. Store another key?`, initialValue: false }),
    )
    if (!again) return keys
  }
  const optional = provider === 'openai-compatible'
  const key = await hidden(`Key of ${provider} (not shown${optional ? '; empty: no key' : ''})`, ApiKeyText, optional)
  if (key !== '') keys[variable] = key
  return keys
}

/** Lists the models of a server, which also tests URL and key before an agent depends on them. */
async function askServer(
  { parts, io }: Context,
  { providerKeys }: Secrets,
  provider: ProviderName,
  keys: Readonly<Record<string, string>>,
): Promise<string[]> {
  const servers: Partial<Record<ProviderName, string | undefined>> = {
    'openai-compatible': keys.OPENAI_BASE_URL ?? providerKeys.openaiBaseUrl,
    openai: providerKeys.openaiBaseUrl ?? 'https://api.openai.com/v1',
    ollama: 'http://127.0.0.1:11434/v1',
  }
  const baseUrl = servers[provider]
  if (baseUrl === undefined) return []
  const key = provider === 'ollama' ? undefined : (keys.OPENAI_API_KEY ?? providerKeys.openai)
  const found = await modelsOf(parts.fetch, { baseUrl, key }, io.signal)
  if ('models' in found) {
    log.success(`${baseUrl} answers and has ${found.models.length} models`)
    return found.models
  }
  log.warn(`${baseUrl}: ${found.problem}. Your input is stored. Correct it with stoa init, or start the server`)
  return []
}

async function askModel(provider: ProviderName, models: readonly string[]): Promise<string> {
  const message = `Which model of ${provider}?`
  if (models.length === 0 || models.length > MODELS_SHOWN_MAX) return line(message, undefined, '')
  return answered(select<string>({ message, options: models.map((value) => ({ value, label: value })) }))
}

async function askAgent(
  flags: InitFlags,
  provider: ProviderName,
  served: readonly string[],
): Promise<AgentDefinition | undefined> {
  if (flags.name === undefined) {
    const sells = await answered(confirm({ message: 'Add an agent to sell?', initialValue: true }))
    if (!sells) return undefined
  }
  const name = flags.name ?? (await line('Name of the agent', undefined, 'Summarizer'))
  const description =
    flags.description ??
    (await line(
      'What the agent does (a language model also gets this as its instructions)',
      undefined,
      'Summarizes any text.',
    ))
  const price = flags.price ?? UsdcText.parse(await line('Price of one task in USDC (0 means free)', UsdcText, '0.01'))
  const models = provider === 'none' ? [] : [{ value: '', label: `a model of ${provider}` }]
  const builtin = (value: string, label: string) => ({ value: `builtin/${value}`, label: `built in: ${label}` })
  const choice =
    flags.model ??
    (await answered(
      select<string>({
        message: 'What the agent runs on',
        options: [
          ...models,
          builtin('summarize', 'summarizes a text'),
          builtin('word-count', 'counts words'),
          builtin('json-query', 'reads values from JSON'),
          builtin('echo', 'repeats the task'),
          {
            value: PROGRAM,
            label: 'your own program: reads the task from standard input, writes the result to standard output',
          },
        ],
      }),
    ))
  if (choice === PROGRAM) {
    const command = await placedWords(
      splitWords(await line('Command that starts the program', CommandLine, 'python3 agent.py'))!,
    )
    return readDefinition({ name, description, price, command })
  }
  const model = choice !== '' ? choice : `${provider}/${await askModel(provider, served)}`
  return readDefinition({ name, description, price, model })
}

const PROGRAM = 'program'
/** Models shown as a list. With more, the user types the name. */
const MODELS_SHOWN_MAX = 40
const CommandLine = z
  .string()
  .refine((text) => (splitWords(text)?.length ?? 0) > 0, 'a program and its arguments, with every quote closed')
