import * as z from 'zod'
import { type Context, command, commonOptions, option } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { agentIdOf } from '../node-access/references.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { withSpinner } from '../text/spinner.ts'

const ScoreText = z
  .string()
  .regex(/^(100(\.0{1,2})?|[0-9]{1,2}(\.[0-9]{1,2})?)$/, 'a number from 0 to 100')
  .transform(Number)
const TagText = z.string().min(1, 'a tag').max(64, 'a tag of at most 64 characters')
const agentId = option(
  '--agent-id <agent>',
  'the agent: its id or the beginning of it, its name, or seller/name (required)',
  z.string(),
)

export const agentRegisterOnchain = command({
  name: 'agent register-onchain',
  summary: 'Give an agent of the running node an identity on the chain (ERC-8004)',
  details:
    'Mints a token for it, which its listing and its responses then name, so that buyers can rate it; a second transaction puts the token into its registration file. Asked again it updates the file where that differs, such as after a new description, image or public_url. Writing to the chain costs gas: the wallet needs a little ETH on the network. After an interruption it goes on with the same transaction.',
  examples: [
    'stoa agent register-onchain --agent-id abc…',
    'stoa agent register-onchain --agent-id abc… --uri https://example.com/agent.json',
  ],
  options: {
    agentId,
    uri: option(
      '--uri <uri>',
      'where the registration file is, https: or ipfs: (default: it is kept on the chain)',
      z.string(),
    ),
    ...commonOptions,
  },
  async run(context, { agentId: id, uri, ...flags }) {
    const given = needed(id)
    const node = await remoteNode(context, flags)
    const agent = await agentIdOf(node, given, context.io)
    const made = await waiting(context, node.registerOnchain(agent, { uri }, { signal: context.io.signal }))
    if (context.json) context.printJson(made)
    else {
      const token = `token ${made.token_id} of ${made.registry} on ${made.network}`
      context.print(`${token}, ${made.minted ? 'minted' : 'its registration file updated'} in ${made.tx_hash}`)
      if (made.update_tx_hash !== undefined) context.print(`its registration file names it, by ${made.update_tx_hash}`)
      if (made.notice !== undefined) context.tell(context.style.stderr.yellow(made.notice))
    }
    return exitCodes.done
  },
})

export const agentFeedback = command({
  name: 'agent feedback',
  summary: 'Rate an agent on the chain (ERC-8004): public, and for ever',
  details:
    'For agents that this node has called and that have an identity on the chain. Costs gas: the wallet needs a little ETH. Nothing is ever rated unless you ask for it.',
  examples: [
    'stoa agent feedback --agent-id abc… --score 95',
    'stoa agent feedback --agent-id abc… --score 20 --tag slow',
  ],
  options: {
    agentId,
    score: option('--score <0-100>', 'how well it did (required)', ScoreText),
    tag: option('--tag <word>', 'a word to sort by', TagText),
    ...commonOptions,
  },
  async run(context, { agentId: id, score, tag, ...flags }) {
    const given = needed(id)
    if (score === undefined) throw new UsageError('--score is missing: a number from 0 to 100')
    const node = await remoteNode(context, flags)
    const agent = await agentIdOf(node, given, context.io)
    const feedback = { score, ...(tag !== undefined && { tag1: tag }) }
    const rated = await waiting(context, node.giveFeedback(agent, feedback, { signal: context.io.signal }))
    if (context.json) context.printJson(rated)
    else context.print(`${rated.score} of 100 for token ${rated.token_id}, in ${rated.tx_hash}`)
    return exitCodes.done
  },
})

function needed(id: string | undefined): string {
  if (id !== undefined) return id
  throw new UsageError('--agent-id is missing: `stoa agent discover` lists the agents')
}

function waiting<T>({ io, json }: Context, work: Promise<T>): Promise<T> {
  return withSpinner(io.stderr.isTty && !json ? io.stderr : undefined, 'waiting for the chain', () => work)
}
