import type { UnixMs } from '../lib/clock.ts'
import { A2A_CALLER } from '../schema/caller.ts'
import type { Hex } from '../schema/primitives.ts'
import type { SignedReceipt } from '../schema/receipt.ts'
import { toHex } from './hex.ts'
import type { LedgerDatabase } from './ledger-database.ts'
import type { PaymentState } from './payments.ts'
import { one } from './query.ts'
import { unpackReceipt } from './receipt-row.ts'

/** An ended A2A task, read from its exchange and payment. */
export type TaskRecord = {
  agentId: string
  callerId: string
  taskId: string
  input: string
  output: string | undefined
  error: string | undefined
  endedAt: UnixMs
  payment:
    | {
        state: PaymentState
        network: string
        payer: Hex
        txHash: Hex | undefined
        /** The receipt signed with the result. */
        signed?: SignedReceipt | undefined
      }
    | undefined
}

/** A2A tasks whose process is gone: a paid result is never lost (D32). */
export interface TaskRecords {
  find(agentId: string, taskId: string): Promise<TaskRecord | undefined>
}

type TaskRow = {
  agent_id: string
  caller_id: string
  correlation_id: string
  input: string
  output: string | null
  error: string | null
  created_at: number
  duration_ms: number
  state: PaymentState | null
  network: string | null
  payer: string | null
  tx_hash: Uint8Array | null
  payment_id: Uint8Array | null
  receipt: Uint8Array | null
}

const FIND = `
  SELECT e.*, p.state, p.network, p.payer, p.tx_hash, p.id AS payment_id, p.receipt
  FROM exchanges e LEFT JOIN payments p ON p.no = e.payment_no
  WHERE e.correlation_id = ? AND substr(e.caller_id, 1, ${A2A_CALLER.length}) = '${A2A_CALLER}' AND e.agent_id = ? ORDER BY e.id DESC LIMIT 1`

export function createTaskRecords(database: LedgerDatabase): TaskRecords {
  return {
    async find(agentId, taskId) {
      const row = await database.query(one<TaskRow>(FIND, taskId, agentId))
      return row && toRecord(row)
    },
  }
}

function toRecord(row: TaskRow): TaskRecord {
  const { state, network, payer, tx_hash, payment_id, receipt, agent_id } = row
  return {
    agentId: row.agent_id,
    callerId: row.caller_id,
    taskId: row.correlation_id,
    input: row.input,
    output: row.output ?? undefined,
    error: row.error ?? undefined,
    endedAt: row.created_at + row.duration_ms,
    payment:
      state === null || network === null || payer === null || payment_id === null
        ? undefined
        : {
            state,
            network,
            payer: payer as Hex,
            txHash: tx_hash === null ? undefined : toHex(tx_hash),
            signed:
              receipt === null ? undefined : unpackReceipt(receipt, toHex(payment_id), { agent_id, network, payer }),
          },
  }
}
