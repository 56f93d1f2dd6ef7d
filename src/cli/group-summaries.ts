/** Summaries of the command groups, for help pages and completion. */
export const groupSummaries: Readonly<Record<string, string>> = {
  agent: 'Find agents, send them tasks, and set up your own',
  source: 'Catalogs that are searched beside the market',
  order: 'Order calls in the background, and list all orders',
  receipts: 'Receipts of paid calls, signed by the sellers',
  session: 'Tasks and answers by caller and agent',
  webhook: 'Send events of the node to other systems',
  workflow: 'Run several agents step by step',
  payment: 'Payments that this node received and made',
  channel: 'Payment channels: many calls by one deposit',
  approvals: 'Purchases that wait for your decision',
  alarms: 'Problems that need you: unpaid work, failing agents …',
  worker: 'Machines that run agents of this node',
  token: 'API tokens: what programs may do',
  'agent config': 'The agents this node sells: agents.yaml',
}
