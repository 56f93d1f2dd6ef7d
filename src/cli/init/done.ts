import type { Config } from '../../config/config.ts'
import { networkText } from '../../schema/network-kind.ts'
import type { Hex } from '../../schema/primitives.ts'
import type { Context } from '../command.ts'
import { columns, printableLine } from '../text/terminal-text.ts'

export type InitResult = {
  config: Config
  wallet: { address: Hex; deed: 'made' | 'imported' | 'kept'; from: 'wallet.key' | 'environment' }
  keys: string[]
  agents: number
  /** Problems of the added agents, and settings that could not be imported. */
  notices: readonly string[]
  /** The `--data-dir` of the command line. The next commands need it too. */
  dataDirFlag: string | undefined
}

export function showDone(context: Context, { config, wallet, keys, agents, notices, dataDirFlag }: InitResult): void {
  if (context.json) {
    context.printJson({
      data_dir: config.dataDir,
      network: config.network,
      wallet: { address: wallet.address, deed: wallet.deed, from: wallet.from },
      keys_stored: keys,
      agents,
      notice: notices[0] ?? null,
      notices,
    })
    return
  }
  const { bold, dim, yellow } = context.style.stdout
  const rows = [
    ['Data', config.dataDir],
    ['Network', `${config.network}: ${networkText(config.network)}`],
    ['Wallet', `${wallet.address}, ${wallet.deed}${wallet.from === 'environment' ? ' (from the environment)' : ''}`],
    ...(keys.length === 0 ? [] : [['Model', `${keys.join(', ')} stored in keys.env, readable only by you`]]),
    [
      'Market',
      config.p2p.publicDht
        ? 'found in the public DHT, which shows the address of this node (turn off with --no-public-dht)'
        : 'the public DHT is off: give peers with stoa start --bootstrap',
    ],
    ['Agents', agents === 0 ? 'none yet: stoa agent config add --help' : `${agents} in agents.yaml`],
  ]
  for (const line of columns(rows.map(([name = '', value = '']) => [bold(name), value]))) context.print(line)
  for (const notice of notices) context.print(`${yellow('!')} ${printableLine(notice, 600)}`)
  if (wallet.deed === 'made') {
    context.print(`${yellow('!')} wallet.key holds the only copy of the wallet's key: copy the file to a safe place`)
  }
  if (config.facilitatorUrl === undefined) {
    context.print(`${yellow('!')} to sell for real money, set a facilitator: stoa init --facilitator-url <url>`)
  }
  context.print()
  context.print('Next:')
  const where = dataDirFlag === undefined ? '' : ` --data-dir ${shellWord(dataDirFlag)}`
  const next = [
    ['stoa start', 'start the node'],
    [where === '' ? 'stoa' : 'stoa tui', 'start the node with the terminal interface'],
    ['stoa agent discover', 'see what other nodes sell'],
    ['stoa wallet', 'show the address and the balance of the wallet'],
    ['stoa doctor', 'find problems'],
  ]
  for (const line of columns(
    next.map(([typed = '', why = '']) => [`${typed}${where}`, dim(why)]),
    { indent: 2 },
  ))
    context.print(line)
}

function shellWord(text: string): string {
  return /^[\w./~:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
