import { type Context, command } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { printList } from '../text/market-text.ts'
import { waiting } from '../text/spinner.ts'

const HASH = {
  name: 'hash',
  description: 'hash of the transaction from `stoa transaction list`',
  missing: 'the hash is missing: `stoa transaction list` lists the hashes',
}

const TX_HASH = /^0x[0-9a-f]{64}$/

export const transactionList = command({
  name: 'transaction list',
  summary: 'List transactions that the running node sent and that are not mined yet',
  details:
    'These are registrations, ratings, refunds and transfers. Payments settle through the facilitator and are not in this list.',
  examples: ['stoa transaction list'],
  async run(context, flags) {
    const node = await remoteNode(context, flags)
    printList(context, await node.transactions({ signal: context.io.signal }), {
      none: 'no transactions are waiting',
      headings: ['NONCE', 'FOR', 'TRANSACTION'],
      cells: ({ account_nonce, purpose, tx_hash }) => [`${account_nonce}`, purpose, tx_hash],
    })
  },
})

export const transactionReplace = changing('replace', {
  summary: 'Send a stuck transaction again with higher fees',
  details:
    'The new transaction has the same account nonce, so only one of the two can be mined. The command also uses up the unused nonces before this nonce.',
})

export const transactionAbandon = changing('abandon', {
  summary: 'Give up a stuck transaction',
  details: 'An empty transaction replaces it, so that later transactions of the account can be mined. This costs gas.',
})

function changing(change: 'replace' | 'abandon', { summary, details }: { summary: string; details: string }) {
  return command({
    name: `transaction ${change}`,
    ...{ summary, details, examples: [`stoa transaction ${change} 0x…`], argument: HASH },
    async run(context: Context, flags, given) {
      const hash = given.toLowerCase()
      if (!TX_HASH.test(hash)) {
        throw new UsageError('a transaction hash is 0x and 64 hex digits: `stoa transaction list` lists the hashes')
      }
      const node = await remoteNode(context, flags)
      const mined = await waiting(context, 'waiting for the chain', () =>
        node.changeTransaction(hash, change, { signal: context.io.signal }),
      )
      context.printResult(mined, `mined: ${mined.tx_hash}`)
    },
  })
}
