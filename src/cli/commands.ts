import { agentConfigAdd, agentConfigList, agentConfigRemove } from './agent-config.ts'
import { agentDiscover } from './agent-discover.ts'
import { agentExecute } from './agent-execute.ts'
import { agentForget, agentImport } from './agent-import.ts'
import { agentFeedback, agentRegisterOnchain } from './agent-onchain.ts'
import { agentRegister } from './agent-register.ts'
import { alarmsDismiss, alarmsList } from './alarms.ts'
import { approvalsApprove, approvalsDeny, approvalsList } from './approvals.ts'
import { budget } from './budget.ts'
import type { Command } from './command.ts'
import { completionOf } from './completion.ts'
import { doctor } from './doctor.ts'
import { events } from './events.ts'
import { init } from './init.ts'
import { ledgerAdopt } from './ledger-adopt.ts'
import { logs } from './logs.ts'
import { mcp } from './mcp.ts'
import { orderCancel, orderCreate, orderExecute, orderList, orderShow } from './order.ts'
import { agentList, agentPause, agentRemove, agentResume, agentTest, agentUpdate } from './own-agents.ts'
import { paymentRefund } from './payment-refund.ts'
import { earnings, paymentList, paymentRetry, paymentShow } from './payments.ts'
import { receiptsExport, receiptsList, receiptsVerify } from './receipts.ts'
import { sessionList, sessionShow } from './session.ts'
import { start } from './start.ts'
import { peers, status } from './status.ts'
import { stop } from './stop.ts'
import { tokenCreate, tokenList, tokenRevoke } from './token.ts'
import { transactionAbandon, transactionList, transactionReplace } from './transaction.ts'
import { tuiOf } from './tui.ts'
import { wallet } from './wallet.ts'
import { walletSend } from './wallet-send.ts'
import { webhookAdd, webhookList, webhookRemove, webhookTest } from './webhook.ts'
import { workflowCancel, workflowCreate, workflowList, workflowRun, workflowShow } from './workflow.ts'

/** Every command, in the order of the help page. */
export const commands: readonly Command[] = [
  init,
  start,
  stop,
  tuiOf(() => commands),
  agentConfigAdd,
  agentConfigList,
  agentConfigRemove,
  agentRegister,
  agentList,
  agentUpdate,
  agentPause,
  agentResume,
  agentRemove,
  agentTest,
  agentDiscover,
  agentExecute,
  agentImport,
  agentForget,
  agentFeedback,
  agentRegisterOnchain,
  orderCreate,
  orderList,
  orderShow,
  orderExecute,
  orderCancel,
  receiptsList,
  receiptsVerify,
  receiptsExport,
  sessionList,
  sessionShow,
  workflowCreate,
  workflowRun,
  workflowList,
  workflowShow,
  workflowCancel,
  earnings,
  paymentList,
  paymentShow,
  paymentRetry,
  paymentRefund,
  wallet,
  walletSend,
  transactionList,
  transactionReplace,
  transactionAbandon,
  budget,
  approvalsList,
  approvalsApprove,
  approvalsDeny,
  tokenCreate,
  tokenList,
  tokenRevoke,
  status,
  alarmsList,
  alarmsDismiss,
  ledgerAdopt,
  peers,
  logs,
  events,
  webhookList,
  webhookAdd,
  webhookRemove,
  webhookTest,
  doctor,
  mcp,
  completionOf(() => commands),
]
