/** The purchase of every variant: the echo of a text, for a tenth of a cent. */
export const TASK = 'All that is gold does not glitter. '.repeat(30).slice(0, 1024)
export const PRICE_ATOMIC = 1000n
/** The price of a call on a channel: so low that the deposit of a run, 5 USDC, pays for half a million calls. */
export const CHANNEL_PRICE_ATOMIC = 10n
export const CHANNEL_DEPOSIT_ATOMIC = 5_000_000n
export const NETWORK = 'eip155:84532' as const
export const PAY_TO = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
export const BUYER_KEY = `0x${'b1'.repeat(32)}` as const
/** A budget in atomic units, above the spending of any run. */
export const BUDGET_ATOMIC = 10n ** 14n
