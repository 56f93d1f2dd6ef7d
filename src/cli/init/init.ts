import { modelsOf } from '../../agents/model-server.ts'
import { addAgentToFile, readAgentsFile } from '../../config/agents-yaml.ts'
import type { Config } from '../../config/config.ts'
import { setInConfigFile } from '../../config/config-file.ts'
import { storeKey } from '../../config/keys-file.ts'
import type { Secrets } from '../../config/secrets.ts'
import { ApiKeyText, PrivateKeyText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import type { Hex } from '../../schema/primitives.ts'
import { dataFile, inspectDataDir, openDataDir } from '../../store/data-dir.ts'
import { type Context, command } from '../command.ts'
import { readDefinition } from '../commands/agent-config.ts'
import { inspectAgents } from '../commands/agent-notices.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { readSecretText } from '../text/secret-text.ts'
import { type Choices, type InitFlags, initOptions, keyVariableFor } from './choices.ts'
import { type InitResult, showDone } from './done.ts'

export const init = command({
  name: 'init',
  local: true,
  summary: 'Set up a node: network, wallet, model key and first agent; asks questions on a terminal',
  details:
    'You may run init again: existing settings stay unless you change them, and a wallet is never overwritten. Give keys in a file or on standard input, not on the command line, where other users could read them.',
  examples: [
    'stoa init',
    'stoa init --yes --name Summarizer --description "Summarizes any text." --price 0.01 --model builtin/summarize',
    'stoa init --yes --wallet import --wallet-key-file ./key.txt',
    'stoa init --yes --provider openai --model-key-file - < key.txt',
    'stoa init --import ~/.betar',
  ],
  options: initOptions,
  async run(context, flags) {
    const settings = { dataDir: flags.dataDir, network: flags.network }
    const { config, secrets } = await context.loadConfig(settings)
    const asks = flags.yes !== true && flags.import === undefined && !context.json
    if (asks && !(context.io.stdin.isTty && context.io.stdout.isTty)) {
      throw new UsageError(
        'there is no terminal to ask on: add --yes and give the settings as flags (stoa init --help)',
      )
    }
    const flagged = await choicesOf(context, flags, asks)
    const choices = asks
      ? await (await import('./questions.ts')).askChoices(context, { config, secrets, flags, flagged })
      : flagged
    if (choices === undefined) return exitCodes.interrupted
    const done = await apply(context, { config, secrets }, choices, flags.wallet)
    if (!asks) await tryServer(context, choices.keys)
    showDone(context, { ...done, dataDirFlag: flags.dataDir })
    return exitCodes.done
  },
})

/** Tests the model server and warns if it fails. Continues anyway, because the server may start later. */
async function tryServer({ parts, io, tell, style }: Context, keys: Readonly<Record<string, string>>): Promise<void> {
  const { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: key } = keys
  if (baseUrl === undefined) return
  const found = await modelsOf(parts.fetch, { baseUrl, key }, io.signal)
  if ('problem' in found) tell(style.stderr.yellow(`--model-url: ${baseUrl}: ${found.problem}`))
}

/** Reads the choices from the flags. With `asks`, asks for the rest. @throws UsageError */
async function choicesOf(context: Context, flags: InitFlags, asks: boolean): Promise<Choices> {
  const { network, rpcUrl, facilitatorUrl, wallet, walletKeyFile, provider, modelKeyFile, modelUrl } = flags
  if (walletKeyFile === '-' && modelKeyFile === '-') {
    throw new UsageError(
      '--wallet-key-file and --model-key-file cannot both read standard input: put one key into a file',
    )
  }
  if (!asks && (wallet === 'import') !== (walletKeyFile !== undefined)) {
    throw new UsageError(
      '--wallet import and --wallet-key-file need each other: name a file with the key, or - for standard input',
    )
  }
  const importKey =
    walletKeyFile === undefined
      ? undefined
      : await readSecretText(context, walletKeyFile, { flag: '--wallet-key-file', schema: PrivateKeyText })
  const keys: Record<string, string> = {}
  const variable = provider === undefined ? undefined : keyVariableFor(provider)
  if (modelKeyFile !== undefined) {
    if (variable === undefined) throw new UsageError('--model-key-file needs --provider: name the provider of the key')
    keys[variable] = await readSecretText(context, modelKeyFile, { flag: '--model-key-file', schema: ApiKeyText })
  }
  if (modelUrl !== undefined) {
    if (provider !== 'openai-compatible') throw new UsageError('--model-url needs --provider openai-compatible')
    keys.OPENAI_BASE_URL = modelUrl
  }
  const described = [flags.name, flags.description, flags.price, flags.model].some((given) => given !== undefined)
  const agent = described && !asks ? readDefinition(flags) : undefined
  const original =
    flags.import === undefined
      ? undefined
      : await (await import('../../config/original-config.ts')).readOriginalConfig(flags.import)
  return {
    network,
    rpcUrl,
    facilitatorUrl,
    publicDht: flags.publicDht,
    importKey,
    keys: { ...original?.keys, ...keys },
    agent,
    original,
    provider,
  }
}

/** What to do where `--provider` was given and its key or address was not. On a terminal init asks for them. */
function lackingAccess(provider: InitFlags['provider'], { providerKeys, env }: Secrets): string[] {
  if (provider === 'openai-compatible' && providerKeys.openaiBaseUrl === undefined) {
    return ['the URL of the openai-compatible provider is missing: give --model-url <url>, or set OPENAI_BASE_URL']
  }
  const variable = provider === undefined || provider === 'openai-compatible' ? undefined : keyVariableFor(provider)
  if (variable === undefined || env(variable) !== undefined) return []
  return [
    `the key of ${provider} is missing: give --model-key-file <path> (- reads standard input), or set ${variable}`,
  ]
}

/** Writes the choices. The wallet comes first, because it may be refused and nothing else has changed yet. */
async function apply(
  context: Context,
  { config, secrets }: { config: Config; secrets: Secrets },
  choices: Choices,
  deed: InitFlags['wallet'],
): Promise<Omit<InitResult, 'dataDirFlag'>> {
  for (const key of Object.values(choices.keys)) context.redactor.add(key)
  const { network, rpcUrl, facilitatorUrl, publicDht, agent, original } = choices
  const agentsPath = dataFile(config.dataDir, 'agents')
  await inspectDataDir(config.dataDir)
  await readAgentsFile(agentsPath)
  await openDataDir(config.dataDir)
  const wallet = await prepareWallet(context, { dataDir: config.dataDir, secrets }, choices.importKey, deed)
  await setInConfigFile(dataFile(config.dataDir, 'config'), {
    ...original?.settings,
    ...defined({ network, rpc_url: rpcUrl, facilitator_url: facilitatorUrl, 'p2p.public_dht': publicDht }),
  })
  for (const [name, value] of Object.entries(choices.keys)) {
    await storeKey(dataFile(config.dataDir, 'keys'), name, value)
  }
  const added = [...(original?.agents ?? []), ...(agent === undefined ? [] : [agent])]
  for (const definition of added) await addAgentToFile(agentsPath, definition)
  const after = await context.loadConfig({ dataDir: config.dataDir, network })
  const notices = await inspectAgents(added, after.secrets, config.dataDir)
  return {
    config: after.config,
    wallet,
    keys: Object.keys(choices.keys),
    agents: (await readAgentsFile(agentsPath)).length,
    notices: [
      ...(original?.notes ?? []),
      ...lackingAccess(choices.provider, after.secrets),
      ...notices.map(({ definition, text }) => (added.length > 1 ? `${definition.name}: ${text}` : text)),
    ],
  }
}

/** Imports, creates or reads the wallet. Never overwrites one. @throws UsageError */
async function prepareWallet(
  context: Context,
  { dataDir, secrets }: { dataDir: string; secrets: Secrets },
  importKey: Hex | undefined,
  deed: InitFlags['wallet'],
): Promise<InitResult['wallet']> {
  const { loadOrCreateWalletKey, readWalletKey, storeWalletKey } = await import('../../payments/wallet-key.ts')
  const { walletAddress } = await import('../../payments/wallet.ts')
  const from = secrets.walletKey === undefined ? 'wallet.key' : 'environment'
  const found = await readWalletKey(dataDir, secrets)
  const same = importKey === undefined || importKey === found
  if (found !== undefined && (!same || deed === 'make')) {
    const address = walletAddress(found)
    throw new UsageError(
      from === 'environment'
        ? `the environment sets the wallet ${address}, which overrides wallet.key: unset its variable to use another wallet`
        : `${dataFile(dataDir, 'wallet')} holds the wallet ${address} and is never overwritten: move the file away first, or choose another --data-dir`,
    )
  }
  if (found === undefined && deed === 'keep')
    throw new UsageError('there is no wallet to keep: use --wallet make or --wallet import')
  if (found === undefined && importKey !== undefined) await storeWalletKey(dataDir, importKey)
  const { key, created } = await loadOrCreateWalletKey(dataDir, secrets)
  context.redactor.add(key)
  const done = found === undefined && importKey !== undefined ? 'imported' : created ? 'made' : 'kept'
  return { address: walletAddress(key), deed: done, from }
}
