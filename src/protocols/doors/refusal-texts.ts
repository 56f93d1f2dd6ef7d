import type { Settlement } from './door-answers.ts'

/** A payment that was claimed before may have settled: its buyer must not sign another because it has to wait. */
export function waitText(reason: string, settlement: Settlement): string {
  if (settlement === 'none') return `${reason}; nothing was charged: the same payment may be sent again`
  return `${reason}; the payment ${stateOf(settlement)}: send the same request with the same payment again later`
}

export function failedText(reason: string, settlement: Settlement): string {
  if (settlement === 'none') return `${reason}; nothing is charged: sign a new payment to try again`
  const again = 'send the same request with the same payment again, and the agent runs again'
  return `${reason}; the payment ${stateOf(settlement)}: ${again}`
}

const stateOf = (settlement: Exclude<Settlement, 'none'>) =>
  settlement === 'settled' ? 'is settled' : 'may settle yet'
