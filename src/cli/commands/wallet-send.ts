import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import type { WalletBalance } from '../../schema/api.ts'
import { IdempotencyKey } from '../../schema/idempotency.ts'
import { networkText } from '../../schema/network-kind.ts'
import { Address, type Hex } from '../../schema/primitives.ts'
import { type SendTransfer, transferAssets } from '../../schema/transfer.ts'
import { type Context, command, flag, option, required } from '../command.ts'
import { confirmed } from '../confirm.ts'
import { exitCodes } from '../exit-code.ts'
import { remoteNode } from '../node-access/remote-node.ts'
import { badge } from '../text/badge.ts'
import { waiting } from '../text/spinner.ts'

const ADDRESS = 'an account: 0x and 40 hex digits'
const AddressText = z.string().refine((text): text is Hex => Address.safeParse(text).success, ADDRESS)
const AmountText = z.string().regex(/^[0-9]{1,30}(\.[0-9]{1,18})?$/, 'an amount such as 1.5')
const AssetText = z
  .string()
  .transform((text) => text.toUpperCase())
  .pipe(z.enum(transferAssets, 'usdc or eth'))

export const walletSend = command({
  name: 'wallet send',
  summary: 'Send USDC or ETH from the wallet of the running node',
  details:
    'Shows the amount, the accounts and the network, and asks before it sends. The transaction costs gas, so the wallet needs some ETH. USDC that is held for signed payments stays in the wallet. The budget does not limit this command. If a similar transaction is still waiting, nothing is sent.',
  examples: [
    'stoa wallet send --to 0x2096… --amount 25',
    'stoa wallet send --to 0x2096… --amount 0.01 --asset eth --yes',
  ],
  options: {
    to: required(
      option('--to <address>', 'account of the recipient (required)', AddressText),
      '--to is missing: give the account of the recipient',
    ),
    amount: required(
      option('--amount <amount>', 'the amount as a decimal number (required)', AmountText),
      '--amount is missing: give the amount to send',
    ),
    asset: option('--asset <asset>', 'usdc (default) or eth', AssetText),
    yes: flag('--yes', 'skip the question'),
    idempotencyKey: option(
      '--idempotency-key <key>',
      'key of this transfer: a repeat with the same key sends nothing again',
      IdempotencyKey,
    ),
  },
  async run(context, { to, amount, asset = 'USDC', yes, idempotencyKey, ...flags }) {
    const { signal } = context.io
    const node = await remoteNode(context, flags)
    const balance = await node.balance({ signal })
    if (yes !== true) {
      if (!context.json && context.io.stdin.isTty) tellWhat(context, balance, { to, amount, asset })
      if (!(await confirmed(context, 'This cannot be undone. Send it? (yes/no)', 'to send'))) {
        context.tell('nothing was sent')
        return exitCodes.interrupted
      }
    } else if (!context.json) tellWhat(context, balance, { to, amount, asset })
    // Send the network that was shown. A node that restarted on another network refuses.
    const asked = { to, amount, asset, network: balance.network }
    const sent = await waiting(context, 'waiting for the chain', () =>
      node.sendFromWallet(asked, { signal, idempotencyKey: idempotencyKey ?? randomUUID() }),
    )
    context.printResult(sent, `sent ${sent.amount} ${sent.asset} to ${sent.to} (transaction ${sent.tx_hash})`)
    return exitCodes.done
  },
})

type What = Required<Pick<SendTransfer, 'to' | 'amount' | 'asset'>>

function tellWhat({ tell, style }: Context, { network, ...held }: WalletBalance, { to, amount, asset }: What): void {
  const holds = asset === 'ETH' ? `${held.eth ?? 'an unknown amount of'} ETH` : `${held.balance} USDC`
  tell(`${badge(network, style.stderr)}  ${networkText(network)} (${network})`)
  tell(`send  ${amount} ${asset}`)
  tell(`from  ${held.address}, which holds ${holds}`)
  tell(`to    ${to}`)
}
