/**
 * What the kits and clients of others are run against: a chain, a facilitator, a seller with a public listener and a buyer.
 *
 *     node test/conformance/stand.ts [--sellers <origin>,<origin>]
 *
 * Prints one line of JSON, and stays until its standard input ends. `--sellers` names servers on this machine that the
 * buyer may pay. See docs/conformance.md.
 */
import { parseArgs } from 'node:util'
import { addresses } from '../../devnet/contracts.ts'
import { startDevnet } from '../../devnet/devnet.ts'
import { startTestNode } from '../support/test-node.ts'

const { values } = parseArgs({ options: { sellers: { type: 'string', default: '' } } })
const privateOrigins = values.sellers.split(',').filter((origin) => origin !== '')

const devnet = await startDevnet()
const seller = await startTestNode({ devnet, walletKey: devnet.wallets.seller.privateKey, public: { port: 0 } })
const buyer = await startTestNode({ devnet, walletKey: devnet.wallets.buyer.privateKey, buyer: { privateOrigins } })

const echo = async (task: string) => task
const fail = () => Promise.reject(new Error('this agent always fails'))
/** The id of a new agent. Its price is in atomic units of USDC. */
async function sell(name: string, price: bigint, run: (task: string) => Promise<string> = echo): Promise<string> {
  const definition = { name, description: `${name}, for tests`, price, tags: ['text'] }
  return (await seller.node.registerAgent(definition, { persist: false, run })).id
}
const agents = {
  echo: await sell('echo', 20_000n),
  free: await sell('free', 0n),
  broken: await sell('broken', 20_000n, fail),
  dear: await sell('dear', 2_000_000n),
}

const stand = {
  agents,
  public_url: seller.publicUrl,
  rpc_url: devnet.rpcUrl,
  facilitator_url: devnet.facilitatorUrl,
  usdc: addresses.usdc,
  seller: { address: devnet.wallets.seller.address },
  buyer: { address: devnet.wallets.buyer.address, key: devnet.wallets.buyer.privateKey, data_dir: buyer.dataDir },
}
console.log(JSON.stringify(stand))

process.stdin.resume().once('end', async () => {
  for (const part of [buyer, seller, devnet]) await part.stop()
  process.exit()
})
