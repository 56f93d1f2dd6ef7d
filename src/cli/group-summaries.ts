/** Summaries of the command groups, for help pages and completion. */
export const groupSummaries: Readonly<Record<string, string>> = {
  agent: 'Find agents, have them work, and set up your own',
  order: 'Purchases in the background, and the ledger of all',
  receipts: 'What was bought and sold, signed by the sellers',
  session: 'What callers and agents said to each other',
  webhook: 'Tell other systems what happens',
  workflow: 'Several agents, step by step',
  payment: 'What this node was paid and has paid',
  approvals: 'Purchases that wait for you',
  alarms: 'What wants you: work that was never paid, agents that fail …',
  token: 'What programs may do through the API',
  'agent config': 'The agents this node sells: agents.yaml',
}
