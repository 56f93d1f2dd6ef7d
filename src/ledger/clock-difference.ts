/**
 * How far the clock of a process may be from the clock of the ledger. Processes that share a ledger decide by their own
 * clocks: whether a payment still covers a run, when one is tried again, when tokens and approvals end, which day a
 * purchase counts for, and what is old enough to be deleted. Payments leave room for this difference (D28).
 */
const DIFFERENCE_MS_MAX = 30_000

/** Why a process with this clock must not trade. @param aheadMs how far its clock is ahead of the ledger's, at least */
export function clockTrouble(aheadMs: number): { reason: string; fix: string } | undefined {
  if (Math.abs(aheadMs) <= DIFFERENCE_MS_MAX) return undefined
  const seconds = Math.round(Math.abs(aheadMs) / 1000)
  const side = aheadMs > 0 ? 'ahead of' : 'behind'
  return {
    reason: `the clock of this machine is ${seconds} s ${side} the clock of the database that holds the ledger`,
    fix: 'set the one that is wrong, for example with timedatectl set-ntp true',
  }
}
