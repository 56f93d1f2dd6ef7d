import { startDevnet } from '../../devnet/devnet.ts'
import { servePart } from '../part.ts'

/** The chain of the channels, with its facilitator, in a process of its own. */
servePart(async () => {
  const devnet = await startDevnet()
  const { rpcUrl, facilitatorUrl, wallets } = devnet
  const keys = { buyerKey: wallets.buyer.privateKey, sellerKey: wallets.seller.privateKey }
  return { ready: { rpcUrl, facilitatorUrl, ...keys }, stop: () => devnet.stop() }
})
