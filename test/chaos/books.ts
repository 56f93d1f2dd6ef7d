import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { usdcEvents } from '../../devnet/chain.ts'
import { openDatabase } from '../../src/store/database.ts'
import { all } from '../../src/store/query.ts'
import { readServer } from '../support/server-ledgers.ts'
import type { World } from './world.ts'

/** A purchase as the buyer's book records it. */
export type Bought = {
  order: string
  status: string
  task: string
  output: string | null
  error: string | null
  workflow: string | null
  step: string | null
  /** Absent if the buyer signed nothing. */
  nonce?: string
  state?: string
  amount?: bigint
  validBeforeSeconds?: number
}
/** A payment as the seller's book records it. */
export type Sold = {
  nonce: string
  state: string
  amount: bigint
  error: string | null
  txHash: string | null
  /** True if the payment settled before its run. The seller then keeps the task, to run it again after a crash (D45). */
  settledFirst: boolean
}
/** A transfer on the chain, with the nonce of its authorization. */
export type Charge = { nonce: string; from: string; to: string; amount: bigint; txHash: string }

/** All records of stopped nodes, and whether their databases are intact. */
export type Books = {
  bought: Map<string, Bought[]>
  sold: Map<string, Sold[]>
  /** By seller: how often each task ran. */
  runs: Map<string, Map<string, number>>
  unsound: string[]
}

export async function readBooks(world: World): Promise<Books> {
  const books: Books = { bought: new Map(), sold: new Map(), runs: new Map(), unsound: [] }
  for (const member of world.members()) {
    const { name } = member.node
    if (world.sellers.includes(name)) books.runs.set(name, readRuns(member.runs))
    try {
      const unsound = checkFile(join(member.dataDir, 'stoa.db'))
      if (unsound !== undefined) books.unsound.push(`the database of ${name}: ${unsound}`)
      const ledger = member.databaseUrl ?? { path: join(member.dataDir, 'stoa.db') }
      if (world.buyers.includes(name)) books.bought.set(name, await readBought(ledger))
      else books.sold.set(name, await readSold(ledger))
    } catch (error) {
      books.unsound.push(`the database of ${name} cannot be read: ${(error as Error).message}`)
    }
  }
  return books
}

export function readRuns(path: string): Map<string, number> {
  const runs = new Map<string, number>()
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : []
  for (const task of lines) runs.set(task, (runs.get(task) ?? 0) + 1)
  return runs
}

/** What is wrong with a file of SQLite. On PostgreSQL it holds what belongs to the process alone. */
function checkFile(path: string): string | undefined {
  const database = new DatabaseSync(path)
  try {
    const [check] = database.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[]
    return check?.integrity_check === 'ok' ? undefined : String(check?.integrity_check)
  } finally {
    database.close()
  }
}

type Row = Record<string, never>

/** A file of SQLite, or the address of a database in PostgreSQL. */
type Place = { path: string } | string

export async function readBought(place: Place): Promise<Bought[]> {
  return (await read(place, BOUGHT)).map(toBought)
}

export async function readSold(place: Place): Promise<Sold[]> {
  return (await read(place, SOLD)).map(toSold)
}

async function read(place: Place, sql: string): Promise<Row[]> {
  const ledger = typeof place === 'string' ? readServer(place) : openDatabase(place)
  try {
    return await ledger.query(all<Row>(sql))
  } finally {
    await ledger.close()
  }
}

const BOUGHT = `
  SELECT o.id, o.status, o.task, o.output, o.error, o.workflow_id, o.step_id,
    a.authorization_nonce AS nonce, a.state, a.amount, a.valid_before_s
  FROM orders o LEFT JOIN authorizations a ON a.order_no = o.no ORDER BY o.no`

function toBought(row: Row): Bought {
  return {
    order: row.id!,
    status: row.status!,
    task: row.task ?? '',
    output: row.output ?? null,
    error: row.error ?? null,
    workflow: row.workflow_id ?? null,
    step: row.step_id ?? null,
    ...(row.nonce !== null && {
      nonce: hex(row.nonce!),
      state: row.state!,
      amount: BigInt(row.amount!),
      validBeforeSeconds: Number(row.valid_before_s),
    }),
  }
}

const SOLD = 'SELECT authorization_nonce AS nonce, state, amount, error, tx_hash, task FROM payments'

function toSold(row: Row): Sold {
  return {
    nonce: hex(row.nonce!),
    state: row.state!,
    amount: BigInt(row.amount!),
    error: row.error ?? null,
    txHash: row.tx_hash === null ? null : hex(row.tx_hash!),
    settledFirst: row.task !== null,
  }
}

function hex(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes).toString('hex')}`
}

/** Reads from the chain which authorizations were used. The chain is the judge. */
export async function readCharges({ devnet }: Pick<World, 'devnet'>): Promise<Charge[]> {
  const { client } = devnet.chain
  const used = await client.getLogs({ event: usdcEvents.authorizationUsed, fromBlock: 0n })
  const moved = await client.getLogs({ event: usdcEvents.transfer, fromBlock: 0n })
  return used.map(({ args, transactionHash }) => {
    const match = moved.find((log) => log.transactionHash === transactionHash && log.args.from === args.authorizer)
    return {
      nonce: args.nonce!.toLowerCase(),
      from: args.authorizer!,
      to: match?.args.to ?? 'nobody',
      amount: match?.args.value ?? 0n,
      txHash: transactionHash,
    }
  })
}
