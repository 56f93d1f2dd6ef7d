import { type Context, command, commonOptions } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { table } from '../text/market-text.ts'
import { withSpinner } from '../text/spinner.ts'

const HASH = { name: 'hash', description: 'hash of the transaction from `stoa transaction list`' }

export const transactionList = command({
  name: 'transaction list',
  summary: 'List transactions that the running node sent and that are not mined yet',
  details:
    'These are registrations, ratings, refunds and transfers. Payments settle through the facilitator and are not in this list.',
  examples: ['stoa transaction list'],
  options: commonOptions,
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const waiting = await node.transactions({ signal: context.io.signal })
    if (context.json) context.printJson(waiting)
    else if (waiting.length === 0) context.print('no transactions are waiting')
    else {
      const rows = waiting.map((one) => [`${one.account_nonce}`, one.purpose, one.tx_hash])
      for (const line of table(['NONCE', 'FOR', 'TRANSACTION'], rows, context)) context.print(line)
    }
    return exitCodes.done
  },
})

export const transactionReplace = changing('replace', {
  summary: 'Send a stuck transaction again with higher fees',
  details:
    'The new transaction has the same account nonce, so only one of the two can be mined. The command also fills unused nonces before it.',
})

export const transactionAbandon = changing('abandon', {
  summary: 'Give up a stuck transaction',
  details: 'An empty transaction replaces it, so that later transactions of the account can be mined. This costs gas.',
})

function changing(change: 'replace' | 'abandon', { summary, details }: { summary: string; details: string }) {
  return command({
    name: `transaction ${change}`,
    ...{ summary, details, examples: [`stoa transaction ${change} 0x…`], options: commonOptions, argument: HASH },
    async run(context: Context, flags, hash) {
      if (hash === undefined) throw new UsageError('the hash is missing: `stoa transaction list` lists the hashes')
      const node = await remoteNode(context, flags)
      const { io } = context
      const work = node.changeTransaction(hash, change, { signal: io.signal })
      const shown = io.stderr.isTty && !context.json ? io.stderr : undefined
      const mined = await withSpinner(shown, 'waiting for the chain', () => work)
      if (context.json) context.printJson(mined)
      else context.print(`mined: ${mined.tx_hash}`)
      return exitCodes.done
    },
  })
}
