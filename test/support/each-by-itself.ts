/** Settings without payment channels: each call is a payment of its own, so that chain and balances show it. */
export const eachByItself = { channels: 'off' } as const
