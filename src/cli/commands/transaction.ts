import { type Context, command, commonOptions } from '../command.ts'
import { exitCodes, UsageError } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { table } from '../text/market-text.ts'
import { withSpinner } from '../text/spinner.ts'

const HASH = { name: 'hash', description: 'the transaction, as `stoa transaction list` shows it' }

export const transactionList = command({
  name: 'transaction list',
  summary: 'List transactions of the running node that are sent and not mined',
  details: 'Registrations and ratings on the chain. Payments settle through the facilitator and are not among them.',
  examples: ['stoa transaction list'],
  options: commonOptions,
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    const waiting = await node.transactions({ signal: context.io.signal })
    if (context.json) context.printJson(waiting)
    else if (waiting.length === 0) context.print('no transactions wait')
    else {
      const rows = waiting.map((one) => [`${one.account_nonce}`, one.purpose, one.tx_hash])
      for (const line of table(['NONCE', 'FOR', 'TRANSACTION'], rows, context)) context.print(line)
    }
    return exitCodes.done
  },
})

export const transactionReplace = changing('replace', {
  summary: 'Send a transaction that does not get mined again with higher fees',
  details: 'With the same account nonce: one of the two happens. Nonces before it that nothing uses are filled.',
})

export const transactionAbandon = changing('abandon', {
  summary: 'Give up a transaction that does not get mined',
  details: 'An empty transaction takes its place, so the account goes on. It costs gas.',
})

function changing(change: 'replace' | 'abandon', { summary, details }: { summary: string; details: string }) {
  return command({
    name: `transaction ${change}`,
    ...{ summary, details, examples: [`stoa transaction ${change} 0x…`], options: commonOptions, argument: HASH },
    async run(context: Context, flags, hash) {
      if (hash === undefined) throw new UsageError('the hash is missing: `stoa transaction list` shows it')
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
