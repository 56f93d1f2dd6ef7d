import type { Approval, Budget } from './api/types.ts'

const DECIMALS = 6

export function sumOf(approvals: readonly Pick<Approval, 'amount_atomic'>[]): bigint {
  return approvals.reduce((total, { amount_atomic }) => total + BigInt(amount_atomic), 0n)
}

/** The rest of today's budget after all these purchases are paid. Undefined if the budget has no limit. */
export function leftAfter(
  approvals: readonly Pick<Approval, 'amount_atomic'>[],
  { left_today_atomic }: Pick<Budget, 'left_today_atomic'>,
): bigint | undefined {
  return left_today_atomic === null ? undefined : BigInt(left_today_atomic) - sumOf(approvals)
}

/** Atomic units as decimal text: `-1500000n` → `-1.5`. */
export function decimalText(atomic: bigint): string {
  const digits = (atomic < 0n ? -atomic : atomic).toString().padStart(DECIMALS + 1, '0')
  const fraction = digits.slice(-DECIMALS).replace(/0+$/, '')
  return `${atomic < 0n ? '-' : ''}${digits.slice(0, -DECIMALS)}${fraction === '' ? '' : `.${fraction}`}`
}
