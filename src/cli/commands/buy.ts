import * as z from 'zod'
import { quote } from '../../config/config-error.ts'
import { UsdcText } from '../../config/values.ts'
import { defined } from '../../lib/defined.ts'
import { orAborted } from '../../lib/wait.ts'
import type { ExecutionResult } from '../../schema/api.ts'
import { webMethods } from '../../schema/web-purchase.ts'
import { type Context, command, flag, option, repeated } from '../command.ts'
import { UsageError } from '../exit-code.ts'
import { networkOptions } from '../node-access/network-options.ts'
import { withOwnNode } from '../node-access/own-node.ts'
import { findRunningNode } from '../node-access/running-node.ts'
import type { BuyUrlRequest } from '../parts.ts'
import { oneOf, withDeadline, writeResult } from '../text/market-text.ts'
import { startSpinner } from '../text/spinner.ts'
import { printableLine } from '../text/terminal-text.ts'
import { tellCost } from './agent-execute.ts'
import { orTellOrder, ownOrders } from './left-order.ts'
import { keyOption, readTask, taskOptions, WAIT_SECONDS, waitOptions } from './task.ts'

export const buy = command({
  name: 'buy',
  summary: 'Buy from an x402 seller over HTTP, pay its price and print the result',
  details:
    'The seller says what it asks, and the node pays it once, within --max-price and the budget. The task is sent as the seller declares it, or else as {"task": …}. With --body or --method the request is sent as you give it. An order keeps the payment and the result: see stoa order list.',
  examples: [
    'stoa buy https://api.example.com/summarize --task "Summarize: …" --max-price 0.05',
    'stoa buy "https://api.example.com/weather?city=Oslo" --method GET --max-price 0.01 --json',
    'stoa buy https://api.example.com/v1/run --body \'{"prompt":"…","size":2}\' --header "Authorization: Bearer …"',
  ],
  options: {
    ...networkOptions,
    ...taskOptions,
    method: option(
      '--method <method>',
      `the method: ${webMethods.join(', ')} (default: what the seller declares, or POST)`,
      oneOf(webMethods),
    ),
    body: option('--body <text>', 'the body as it is sent, instead of a task', z.string()),
    header: repeated(
      '--header <header>',
      'a header of the request, "Name: value"; may be repeated',
      z.array(z.string()),
    ),
    maxPrice: option('--max-price <usdc>', 'the most to pay (default: the limit of the node, 1 USDC)', UsdcText),
    payTo: option(
      '--pay-to <account>',
      'the account that the seller must ask to be paid by',
      z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'an account, 0x…'),
    ),
    awaitSettlement: flag(
      '--await-settlement',
      'wait until the chain shows the payment (default: the result comes first)',
    ),
    ...keyOption('task'),
    ...waitOptions,
  },
  argument: {
    name: 'url',
    description: 'address of the seller',
    missing: 'the address of the seller is missing: stoa buy https://…',
  },
  async run(
    context,
    { task, input, method, body, header, maxPrice, payTo, awaitSettlement, timeout = WAIT_SECONDS, ...rest },
    url,
  ) {
    const { idempotencyKey, ...flags } = rest
    if (!URL.canParse(url)) throw new UsageError(`${quote(url)} is not a URL such as https://api.example.com/run`)
    const isTask = task !== undefined || input !== undefined
    if (!isTask && body === undefined && method === undefined) {
      throw new UsageError(
        'say what to buy: --task <text>, or --body <text>, or --method GET for a URL that needs no more',
      )
    }
    const text = isTask ? await readTask(context.io, { task, input }) : undefined
    const { config, secrets } = await context.loadConfig(flags)
    const headers = header && headersOf(header)
    const request = {
      url,
      ...defined({ task: text, method, body, headers, maxPriceAtomic: maxPrice, awaitsSettlement: awaitSettlement }),
      ...defined({ idempotencyKey, expected: payTo === undefined ? undefined : { payTo } }),
    }
    const late = `no result within ${timeout} s: set a longer limit with --timeout`
    const result = await withDeadline(context, { seconds: timeout, late }, (signal) =>
      buyFrom(context, { config, secrets, port: flags.port }, { ...request, signal }),
    )
    if (context.json) context.printJson(result)
    else {
      writeResult(context, result)
      tellCost(context, result)
    }
  },
})

async function buyFrom(
  context: Context,
  node: Parameters<typeof withOwnNode>[1],
  request: BuyUrlRequest,
): Promise<ExecutionResult> {
  const { signal } = request
  const asking = `asking ${printableLine(request.url, 60)}`
  const spinner = context.json ? undefined : startSpinner(context.io.stderr, asking)
  try {
    const running = await findRunningNode(context, node.config, node.secrets)
    if (running !== undefined) {
      const { signal: _, ...call } = request
      return await orTellOrder(context, running.node, { ...request, spinner }, (idempotencyKey) =>
        running.node.buyUrl({ ...call, idempotencyKey }, { signal }),
      )
    }
    spinner?.update('no node is running: starting a temporary node')
    return await withOwnNode(context, node, (own) =>
      orTellOrder(context, ownOrders(own), { ...request, spinner }, (idempotencyKey) =>
        orAborted(own.buyUrl({ ...request, idempotencyKey }), signal),
      ),
    )
  } finally {
    spinner?.stop()
  }
}

function headersOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(':')
      if (at < 1) throw new UsageError(`--header ${JSON.stringify(line.slice(0, 40))} is not "Name: value"`)
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}
