import * as z from 'zod'
import { agentOption, command, option, ownAgentOption, required } from '../command.ts'
import { agentIdOf } from '../node-access/references.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { waiting } from '../text/spinner.ts'

const ScoreText = z
  .string()
  .regex(/^(100(\.0{1,2})?|[0-9]{1,2}(\.[0-9]{1,2})?)$/, 'a number from 0 to 100')
  .transform(Number)
const TagText = z.string().min(1, 'a tag').max(64, 'a tag of at most 64 characters')
export const agentRegisterOnchain = command({
  name: 'agent register-onchain',
  summary: 'Give an agent of the running node an identity on the chain (ERC-8004)',
  details:
    'Mints a token for the agent. The listing and the responses of the agent then name this token, so that buyers can rate the agent. A second transaction writes the token into the registration file. Run the command again to update the file, for example after a new description, image or public_url. After an interruption the command continues with the same transaction. Transactions cost gas, so the wallet needs some ETH on the network.',
  examples: [
    'stoa agent register-onchain --agent-id abc…',
    'stoa agent register-onchain --agent-id abc… --uri https://example.com/agent.json',
  ],
  options: {
    agentId: ownAgentOption,
    uri: option(
      '--uri <uri>',
      'https: or ipfs: address of the registration file (default: the file is stored on the chain)',
      z.string(),
    ),
  },
  async run(context, { agentId, uri, ...flags }) {
    const node = await remoteNode(context, flags)
    const agent = await agentIdOf(node, agentId, context.io)
    const made = await waiting(context, 'waiting for the chain', () =>
      node.registerOnchain(agent, { uri }, { signal: context.io.signal }),
    )
    if (context.json) context.printJson(made)
    else {
      const token = `token ${made.token_id} of ${made.registry} on ${made.network}`
      context.print(
        `${made.minted ? 'minted' : 'updated the registration file of'} ${token} (transaction ${made.tx_hash})`,
      )
      if (made.update_tx_hash !== undefined)
        context.print(`wrote the token into the registration file (transaction ${made.update_tx_hash})`)
      if (made.notice !== undefined) context.tell(context.style.stderr.yellow(made.notice))
    }
  },
})

export const agentFeedback = command({
  name: 'agent feedback',
  summary: 'Rate an agent on the chain (ERC-8004); the rating is public and permanent',
  details:
    'You can rate an agent that this node has called and that has an identity on the chain. The transaction costs gas, so the wallet needs some ETH. The node rates agents by itself only if buyer.rate_every is set.',
  examples: [
    'stoa agent feedback --agent-id abc… --score 95',
    'stoa agent feedback --agent-id abc… --score 20 --tag slow',
  ],
  options: {
    agentId: agentOption,
    score: required(
      option('--score <0-100>', 'how well the agent did (required)', ScoreText),
      '--score is missing: give a number from 0 to 100',
    ),
    tag: option('--tag <word>', 'a word that groups ratings', TagText),
  },
  async run(context, { agentId, score, tag, ...flags }) {
    const node = await remoteNode(context, flags)
    const agent = await agentIdOf(node, agentId, context.io)
    const feedback = { score, ...(tag !== undefined && { tag1: tag }) }
    const rated = await waiting(context, 'waiting for the chain', () =>
      node.giveFeedback(agent, feedback, { signal: context.io.signal }),
    )
    context.printResult(rated, `rated token ${rated.token_id}: ${rated.score} of 100 (transaction ${rated.tx_hash})`)
  },
})
