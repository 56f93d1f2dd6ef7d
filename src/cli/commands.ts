import type { Command } from './command.ts'
import { agentConfigAdd, agentConfigList, agentConfigRemove } from './commands/agent-config.ts'
import { agentDiscover } from './commands/agent-discover.ts'
import { agentExecute } from './commands/agent-execute.ts'
import { agentForget, agentImport } from './commands/agent-import.ts'
import { agentFeedback, agentRegisterOnchain } from './commands/agent-onchain.ts'
import { agentRegister } from './commands/agent-register.ts'
import { agentReload } from './commands/agent-reload.ts'
import { alarmsDismiss, alarmsList } from './commands/alarms.ts'
import { approvalsApprove, approvalsDeny, approvalsList } from './commands/approvals.ts'
import { budget } from './commands/budget.ts'
import { buy } from './commands/buy.ts'
import {
  channelClose,
  channelList,
  channelOpen,
  channelRecover,
  channelShow,
  channelWithdraw,
} from './commands/channel.ts'
import { doors } from './commands/doors.ts'
import { events } from './commands/events.ts'
import { ledgerAdopt } from './commands/ledger-adopt.ts'
import { ledgerCopy } from './commands/ledger-copy.ts'
import { logs } from './commands/logs.ts'
import { mcp } from './commands/mcp.ts'
import { orderCancel, orderCreate, orderExecute, orderList, orderShow } from './commands/order.ts'
import { agentList, agentPause, agentRemove, agentResume, agentTest, agentUpdate } from './commands/own-agents.ts'
import { paymentRefund } from './commands/payment-refund.ts'
import { earnings, paymentList, paymentRetry, paymentShow } from './commands/payments.ts'
import { receiptsExport, receiptsList, receiptsVerify, receiptsX402 } from './commands/receipts.ts'
import { sessionList, sessionShow } from './commands/session.ts'
import { sourceList, sourceTest } from './commands/source.ts'
import { start } from './commands/start.ts'
import { peers, status } from './commands/status.ts'
import { stop } from './commands/stop.ts'
import { tokenCreate, tokenList, tokenRevoke } from './commands/token.ts'
import { transactionAbandon, transactionList, transactionReplace } from './commands/transaction.ts'
import { tuiOf } from './commands/tui.ts'
import { wallet } from './commands/wallet.ts'
import { walletSend } from './commands/wallet-send.ts'
import { webhookAdd, webhookList, webhookRemove, webhookTest } from './commands/webhook.ts'
import { worker } from './commands/worker.ts'
import { workerInvite, workerList, workerRevoke } from './commands/workers.ts'
import { workflowCancel, workflowCreate, workflowList, workflowRun, workflowShow } from './commands/workflow.ts'
import { completionOf } from './completion.ts'
import { doctor } from './doctor/doctor.ts'
import { init } from './init/init.ts'
import { sell } from './sell/sell.ts'

/** Every command, in the order of the help page. */
export const commands: readonly Command[] = [
  init,
  sell,
  start,
  stop,
  tuiOf(() => commands),
  agentConfigAdd,
  agentConfigList,
  agentConfigRemove,
  agentReload,
  agentRegister,
  agentList,
  agentUpdate,
  agentPause,
  agentResume,
  agentRemove,
  agentTest,
  agentDiscover,
  agentExecute,
  buy,
  agentImport,
  agentForget,
  agentFeedback,
  agentRegisterOnchain,
  sourceList,
  sourceTest,
  orderCreate,
  orderList,
  orderShow,
  orderExecute,
  orderCancel,
  receiptsList,
  receiptsVerify,
  receiptsExport,
  receiptsX402,
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
  channelList,
  channelShow,
  channelOpen,
  channelClose,
  channelWithdraw,
  channelRecover,
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
  worker,
  workerInvite,
  workerList,
  workerRevoke,
  status,
  alarmsList,
  alarmsDismiss,
  ledgerAdopt,
  ledgerCopy,
  peers,
  doors,
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
