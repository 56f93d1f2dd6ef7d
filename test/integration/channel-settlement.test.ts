/** A whole node claims what its channels owe, by its settings and its facilitator. */
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, expect } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { channelCalls } from '../../src/chain/batch-settlement.ts'
import { signVoucher } from '../../src/payments/voucher.ts'
import { createWallet } from '../../src/payments/wallet.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createSellerChannelStore } from '../../src/store/seller-channels.ts'
import { CHANNEL_ASSET } from '../support/channel-seller.ts'
import { onSqliteOnly } from '../support/ledger-engine.ts'
import { startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'
import { channelOf } from '../support/seller-channels.ts'
import { TestChannels } from '../support/test-channels.ts'
import { until } from '../support/until.ts'

let devnet: Devnet
let channels: TestChannels
beforeAll(async () => {
  devnet = await startDevnet()
  channels = await new TestChannels(devnet.chain).start()
})
afterAll(async () => {
  await stopTestNodes()
  await devnet.stop()
})

onSqliteOnly('the test writes into the file of a node that is stopped')(
  'a node claims at its start what a payer takes out, also what it has charged before a crash',
  async () => {
    const key = generatePrivateKey()
    const wallet = createWallet(key, CHANNEL_ASSET)
    const [dataDir, { rpcUrl, facilitatorUrl }] = [await testDir(), devnet]
    const settings = { key, dataDir, rpcUrl, facilitatorUrl }
    await (await startTestNode(settings)).stop()

    const receiverAuthorizer = wallet.channelSigner('claims').address
    const config = await channels.open(900_000n, {
      receiver: wallet.address,
      receiverAuthorizer,
      withdrawDelay: 86_400,
    })
    const id = channels.id(config)
    const database = openDatabase({ path: join(dataDir, 'stoa.db') })
    const store = createSellerChannelStore(database)
    const voucher = { channelId: id, maxClaimableAmount: 500_000n }
    const best = signVoucher(voucher, channels.session.key, CHANNEL_ASSET.chainId)
    const onChain = await channels.state(config)
    const charged = { id, config, onChain, best, charged: 400_000n, seq: 4, owedSince: 1 }
    expect(await store.add(channelOf(charged), { perPeerMax: 1, max: 1 })).toBe('added')
    await database.close()
    await channels.send(channels.payer, channelCalls.initiateWithdraw(config, 900_000n))

    const node = await startTestNode(settings)
    expect(await channels.state(config)).toMatchObject({ totalClaimed: 400_000n })
    await node.stop()
    // The stop moves it to the wallet, and the reading of the chain is in the ledger.
    expect(await devnet.chain.balanceOf(wallet.address)).toBe(400_000n)
    const after = openDatabase({ path: join(dataDir, 'stoa.db') })
    const stored = async () => (await createSellerChannelStore(after).list(CHANNEL_ASSET.network))[0]?.channel
    await until(async () => (await stored())?.onChain.totalClaimed === 400_000n)
    await after.close()
  },
)
