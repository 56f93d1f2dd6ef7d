import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import * as z from 'zod'
import type { Config } from '../../config/config.ts'
import type { Secrets } from '../../config/secrets.ts'
import { PathText } from '../../config/values.ts'
import { reasonOf } from '../../lib/errors.ts'
import { parseJson, UNLIMITED } from '../../lib/json.ts'
import { silentLogger } from '../../lib/logger.ts'
import type { Proof } from '../../payments/receipt-proof.ts'
import { PAGE_ITEMS_MAX } from '../../schema/limits.ts'
import { SignedReceipt, SignedX402Receipt } from '../../schema/receipt.ts'
import { directions, ReceiptAuthorization, ReceiptChannel, type ReceiptRecord } from '../../schema/receipt-record.ts'
import { dataFile } from '../../store/data-dir.ts'
import type { LedgerDatabase } from '../../store/ledger-database.ts'
import { lockDataDir } from '../../store/lock.ts'
import type { FoundLedger } from '../../store/postgres/look.ts'
import { type Context, command, flag, option } from '../command.ts'
import { CliError, exitCodes, UsageError } from '../exit-code.ts'
import { agentIdOf } from '../node-access/references.ts'
import { moneyNode, remoteNode } from '../node-access/remote-node.ts'
import { findRunningNode } from '../node-access/running-node.ts'
import type { RemoteNode } from '../parts.ts'
import { age, oneOf, pageOptions, printList, tellMore } from '../text/market-text.ts'
import { printableLine } from '../text/terminal-text.ts'
import { fullPaymentId, isPaymentId, notPaymentId } from './payment-id.ts'

const LINE_LENGTH = 400
const AccountText = z.string().regex(/^0x[0-9a-fA-F]{40}$/, 'expected an account: 0x and 40 hex digits')
const selection = {
  direction: option(
    '--direction <direction>',
    'only receipts that this node gave (in) or got (out)',
    oneOf(directions),
  ),
  agentId: option('--agent-id <agent>', 'only receipts for this agent', z.string()),
} as const

export const receiptsList = command({
  name: 'receipts list',
  summary: 'List the receipts of paid calls, newest first',
  examples: ['stoa receipts list', 'stoa receipts list --direction out --json | jq -r ".[].payment_id"'],
  options: {
    ...selection,
    ...pageOptions('receipts'),
  },
  async run(context, { direction, agentId, limit, cursor, ...flags }) {
    const node = await moneyNode(context, flags)
    const of = agentId === undefined ? undefined : await agentIdOf(node, agentId, context.io)
    const { items, next } = await node.receipts(
      { direction, agentId: of, limit, cursor },
      { signal: context.io.signal },
    )
    const now = context.parts.clock.now()
    printList(context, items, {
      none: 'no receipts: each paid call adds a receipt',
      headings: ['', 'USDC', 'RECEIPT', 'AGE', 'AGENT', 'PAYMENT'],
      cells: (record) => [
        record.direction,
        record.amount,
        record.status,
        age(record.created_at, now),
        printableLine(record.agent_name ?? record.agent_id, 20),
        record.payment_id,
      ],
    })
    tellMore(context, 'stoa receipts list', next)
  },
})

export const receiptsExport = command({
  name: 'receipts export',
  summary: 'Write all receipts as CSV for a spreadsheet, or as JSON for stoa receipts verify',
  examples: ['stoa receipts export --csv > receipts.csv', 'stoa receipts export --json --direction out > bought.json'],
  options: { csv: flag('--csv', 'a table with one receipt per line'), ...selection },
  async run(context, { csv, direction, agentId, ...flags }) {
    if ((csv ?? false) === context.json)
      throw new UsageError('the format is missing or given twice: choose --csv or --json')
    const node = await remoteNode(context, flags)
    const of = agentId === undefined ? undefined : await agentIdOf(node, agentId, context.io)
    const { receiptsCsv } = await import('../../ledger/receipts.ts')
    const all: ReceiptRecord[] = []
    let cursor: string | undefined
    do {
      const query = { direction, agentId: of, limit: PAGE_ITEMS_MAX, cursor }
      const { items, next } = await node.receipts(query, { signal: context.io.signal })
      if (csv === true) context.io.stdout.write(receiptsCsv(items, { headings: cursor === undefined }))
      else all.push(...items)
      cursor = next
    } while (cursor !== undefined)
    if (csv !== true) context.printJson(all)
  },
})

export const receiptsVerify = command({
  name: 'receipts verify',
  summary: 'Check a receipt offline: what it proves and what it does not prove',
  details:
    'The argument is a file (a receipt, an export, or only the signed part of a receipt) or the payment id of a receipt in the ledger of this node. The node need not run. The exit status is 1 if a receipt contradicts itself or the given texts.',
  examples: [
    'stoa receipts verify receipt.json',
    'stoa receipts verify receipt.json --task task.txt --result answer.txt',
    'stoa receipts verify receipt.json --signer 0x4a62316623ad457F02cDC5D997deD67a383EC569',
    'stoa receipts verify 0x576d7d62… --json',
  ],
  options: {
    task: option('--task <file>', 'compare the receipt with this task', PathText),
    result: option('--result <file>', 'compare the receipt with this result', PathText),
    signer: option('--signer <address>', 'the account that should have signed the receipt', AccountText),
  },
  argument: {
    name: 'id or file',
    description: 'a payment id, the start of a payment id, or a file with receipts',
    missing: 'the receipt is missing: give a file, or a payment id from `stoa receipts list`',
  },
  async run(context, { task, result, signer, ...flags }, given) {
    const isId = isPaymentId(given)
    if (!isId && given.startsWith('0x') && !existsSync(given)) throw notPaymentId()
    const receipts = isId ? [await kept(context, flags, given)] : await readReceipts(given)
    if (receipts.length > 1 && (task ?? result) !== undefined) {
      const fix = 'give the payment id of the receipt, or a file with this receipt alone'
      throw new UsageError(`--task and --result compare one receipt, and ${given} has ${receipts.length}: ${fix}`)
    }
    const files = {
      task: task === undefined ? undefined : await readBytes(task),
      result: result === undefined ? undefined : await readBytes(result),
      expected: signer,
    }
    const { proveReceipt, proveX402Receipt } = await import('../../payments/receipt-proof.ts')
    const proofs = receipts.map((given) =>
      'x402' in given
        ? { transaction: given.x402.payload.transaction, ...proveX402Receipt(given.x402, signer) }
        : { payment_id: given.receipt.payload.paymentId, ...proveReceipt({ ...given, ...files }) },
    )
    if (context.json) context.printJson(isId || proofs.length === 1 ? proofs[0] : proofs)
    else for (const proof of proofs) show(context, proof)
    return proofs.every(({ ok }) => ok) ? exitCodes.done : exitCodes.failed
  },
})

export const receiptsX402 = command({
  name: 'receipts x402',
  summary: 'Get the receipt of a payment as x402 has it, as JSON',
  details:
    "A receipt of x402's offer-receipt extension, which any client of x402 verifies. It names payer, agent and transaction, and neither task nor result. For a purchase the node asks the seller for it, which signs it once the payment is settled. For a purchase over HTTP this is the receipt that came with the result. Nothing is paid.",
  examples: ['stoa receipts x402 0x576d7d62… > receipt.json'],
  options: {},
  argument: {
    name: 'id',
    description: 'a payment id, or the start of a payment id',
    missing: 'the payment is missing: give a payment id from `stoa receipts list`',
  },
  async run(context, flags, given) {
    const node = await remoteNode(context, flags)
    const { signal } = context.io
    const id = await fullPaymentId(given, () => node.receipts({ limit: PAGE_ITEMS_MAX }, { signal }))
    context.printJson(await node.x402Receipt(id, { signal }))
  },
})

type Judged = Proof & ({ payment_id: string } | { transaction: string })

function show(context: Context, { ok, proven, failed, unproven, ...judged }: Judged): void {
  const { style } = context
  const what = 'payment_id' in judged ? `payment ${judged.payment_id}` : `transaction ${judged.transaction}`
  context.print(`${style.stdout.bold(ok ? 'GOOD' : 'BAD')}  ${what}`)
  for (const line of failed) context.print(`  contradicted  ${printableLine(line, LINE_LENGTH)}`)
  for (const line of proven) context.print(`  proven        ${printableLine(line, LINE_LENGTH)}`)
  for (const line of unproven) context.print(`  not proven    ${printableLine(line, LINE_LENGTH)}`)
}

const Kept = z.object({
  receipt: SignedReceipt,
  authorization: ReceiptAuthorization.optional(),
  channel: ReceiptChannel.optional(),
})
const Bare = SignedReceipt.transform((receipt) => ({ receipt, authorization: undefined, channel: undefined }))
const OfX402 = SignedX402Receipt.transform((x402) => ({ x402 }))
const One = z.union([Kept, Bare, OfX402])
type GivenReceipt = z.output<typeof One>
/** An export also contains purchases without a receipt. */
const Several = z.array(z.looseObject({ receipt: z.unknown().optional() })).max(1_000_000)

async function readReceipts(path: string): Promise<GivenReceipt[]> {
  const json = parseJson((await readBytes(path)).toString('utf8'), UNLIMITED)
  if (json === undefined) {
    throw new UsageError(`${path} is not JSON: write a file with \`stoa receipts export --json\``)
  }
  const several = Several.safeParse(json)
  const found = several.success ? several.data.filter(({ receipt }) => receipt !== undefined) : [json]
  const read = found.map((item) => One.safeParse(item))
  const wrong = read.findIndex(({ success }) => !success)
  if (wrong >= 0)
    throw new UsageError(`${path}: ${several.success ? `receipt ${wrong + 1}` : 'the content'} is not a receipt`)
  if (read.length === 0) throw new UsageError(`${path} has no receipt`)
  return read.map(({ data }) => data as GivenReceipt)
}

async function kept(context: Context, flags: { dataDir?: string | undefined }, given: string): Promise<GivenReceipt> {
  const { signal } = context.io
  const ask = async (node: RemoteNode) => {
    const id = await fullPaymentId(given, () => node.receipts({ limit: PAGE_ITEMS_MAX }, { signal }))
    return await node.receipt(id, { signal })
  }
  const { config, secrets } = await context.loadConfig(flags)
  const running = await findRunningNode(context, config, secrets)
  const record = running === undefined ? await readStored(config, secrets, given) : await ask(running.node)
  if (record?.receipt !== undefined) {
    const { receipt, authorization, channel } = record
    return { receipt, authorization, channel }
  }
  const why =
    record === undefined
      ? 'this node has no receipt for this payment'
      : `the seller sent no valid receipt: ${record.note ?? record.status}`
  throw new CliError('FAILED', why)
}

async function readStored(config: Config, secrets: Secrets, id: string): Promise<ReceiptRecord | undefined> {
  const { dataDir } = config
  const url = secrets.database?.url
  if (url === undefined && !existsSync(dataFile(dataDir, 'database'))) return undefined
  const [{ createReceiptStore }, { receiptRecord }] = await Promise.all([
    import('../../store/receipts.ts'),
    import('../../ledger/receipts.ts'),
  ])
  const lock = lockDataDir(dataDir)
  try {
    const database = await openStored(config, secrets)
    try {
      const store = createReceiptStore(database)
      const recent = async () => {
        const { items } = await store.list({ limit: PAGE_ITEMS_MAX })
        return { items: items.map(({ paymentId }) => ({ payment_id: paymentId })) }
      }
      const stored = await store.get(await fullPaymentId(id, recent))
      return stored && receiptRecord(stored, undefined)
    } finally {
      await database.close()
    }
  } finally {
    lock.release()
  }
}

/** The ledger, in the data directory or in PostgreSQL. That of another seller is refused, and not brought up to date. */
async function openStored(config: Config, secrets: Secrets): Promise<LedgerDatabase> {
  const url = secrets.database?.url
  if (url === undefined) {
    const { openDatabase } = await import('../../store/database.ts')
    return openDatabase({ path: dataFile(config.dataDir, 'database') })
  }
  const [{ openServerLedger, serverName }, { checkOwner }, { readIdentity }] = await Promise.all([
    import('../../store/server-ledger.ts'),
    import('../../store/ledger-owner.ts'),
    import('../../p2p/identity.ts'),
  ])
  const identity = await readIdentity(dataFile(config.dataDir, 'identity'))
  const check = async ({ facts }: FoundLedger) => {
    if (facts === undefined) throw new CliError('FAILED', `PostgreSQL at ${serverName(url)} has no ledger`)
    // Who has the wallet does not matter for reading.
    if (facts.owner) checkOwner(facts.owner, { ...facts.owner, seller: identity?.peerId }, serverName(url))
  }
  return (await openServerLedger(url, { logger: silentLogger, check })).database
}

async function readBytes(path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new UsageError(`cannot read ${path}: ${reasonOf(error)}`)
  }
}
