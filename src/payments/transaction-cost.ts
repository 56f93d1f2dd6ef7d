/** What a transaction costs about at a facilitator, or as gas, in USDC atomic units. */
export const TRANSACTION_COST = 1_000n
