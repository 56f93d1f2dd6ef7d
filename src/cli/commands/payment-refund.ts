import { command, flag } from '../command.ts'
import { confirmed } from '../confirm.ts'
import { exitCodes } from '../exit-code.ts'
import { moneyNode } from '../node-access/remote-node.ts'
import { waiting } from '../text/spinner.ts'
import { printableLine } from '../text/terminal-text.ts'
import { idOf, PAYMENT } from './payments.ts'

export const paymentRefund = command({
  name: 'payment refund',
  summary: 'Pay back a payment that the running node received, for example for a failed run',
  details:
    'The wallet sends a transaction, which costs gas, so the wallet needs some ETH. A payment is paid back only once, even if you ' +
    'repeat the command. The refund is possible from one minute after the window of the payment, when the settlement is final. After a refund, nothing runs for this payment.',
  examples: ['stoa payment refund 0x…', 'stoa payment refund 0x… --yes'],
  options: { yes: flag('--yes', 'skip the question') },
  argument: PAYMENT,
  async run(context, { yes, ...flags }, id) {
    const { io } = context
    const node = await moneyNode(context, flags)
    const whole = await idOf(node, id, context)
    const payment = await node.payment(whole, { signal: io.signal })
    if (payment.refund_tx_hash === undefined && yes !== true) {
      const what = `${payment.amount} USDC on ${payment.network} to ${payment.payer}, for ${payment.agent_name ?? payment.agent_id}`
      const question = printableLine(`Pay back ${what}? This cannot be undone. (yes/no)`, 400)
      if (!(await confirmed(context, question, 'to pay back'))) {
        context.tell('nothing was sent')
        return exitCodes.interrupted
      }
    }
    const refund = () => node.refundPayment(whole, { signal: io.signal })
    const refunded = await waiting(context, 'waiting for the chain', refund)
    const { amount, payer, refund_tx_hash: transaction } = refunded
    const where = transaction === undefined ? '' : ` (transaction ${transaction})`
    const text =
      payment.refund_tx_hash === undefined
        ? `paid back ${amount} USDC to ${payer}${where}`
        : `${amount} USDC were paid back to ${payer} before${where}`
    context.printResult(refunded, printableLine(text, 400))
    return exitCodes.done
  },
})
