import { randomBytes } from 'node:crypto'
import type { Chain } from '../chain/chain.ts'
import { openChain } from '../chain/open-chain.ts'
import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import type { NodeFeed } from '../ledger/ledger-feed.ts'
import { createTail, type Tail } from '../ledger/tail.ts'
import { createTrading, type Trading } from '../ledger/trading.ts'
import { systemClock } from '../lib/clock.ts'
import { Feed } from '../lib/feed.ts'
import { patientFetch } from '../lib/http.ts'
import type { Service } from '../lib/lifecycle.ts'
import { silentLogger } from '../lib/logger.ts'
import { Pace } from '../lib/pace.ts'
import { periodic } from '../lib/periodic.ts'
import { stoaVersion } from '../lib/version.ts'
import { loadOrCreateIdentity } from '../p2p/identity.ts'
import { assetOf } from '../payments/assets.ts'
import { openFacilitator } from '../payments/open-facilitator.ts'
import { createWallet } from '../payments/wallet.ts'
import { isWalletMissing, loadOrCreateWalletKey, newWalletText, otherWalletText } from '../payments/wallet-key.ts'
import { dataFile } from '../store/data-dir.ts'
import type { Databases } from '../store/databases.ts'
import { placeOfFile } from '../store/file-place.ts'
import { readRestored } from '../store/ledger-turn.ts'
import { PeerDatastore } from '../store/peer-datastore.ts'
import { createRunTime } from '../store/run-time.ts'
import { createTransactions } from '../store/transactions.ts'
import type { Ports } from './api.ts'
import { createHosts } from './hosts.ts'
import { createSiblings } from './siblings.ts'

/** How often the node looks whether the file of its ledger is still there. */
const FILE_MS = 5_000
/** How long after a start, and how often, an RPC is asked for its chain. */
const RPC_FIRST_MS = 1_000
const RPC_MS = 30_000

/** How often a shared ledger is counted on: a backup that is older is noticed at the next start, also after a kill. */
const COUNT_MS = 60_000

/** What the parts of a node share: its keys, databases, network, chain, facilitator and feed. */
export type Foundation = Awaited<ReturnType<typeof layFoundation>>

export async function layFoundation(config: Config, secrets: Secrets, ports: Partial<Ports>, databases: Databases) {
  const { database, localDatabase, server, latency, isShared, lost, close: closeDatabases } = databases
  const { clock = systemClock, logger = silentLogger } = ports
  const isMissing = await isWalletMissing(config.dataDir, secrets)
  const identity = await loadOrCreateIdentity(dataFile(config.dataDir, 'identity'), { logger })
  const { key } = await loadOrCreateWalletKey(config.dataDir, secrets)
  const asset = assetOf(config.network)!
  const wallet = createWallet(key, asset)
  const before = await databases.claim({ seller: identity.peerId, wallet: wallet.address, network: config.network })
  const walletBefore = before?.wallet
  const restoredAt = await readRestored(database)
  if (isMissing) logger.warn({ part: 'wallet' }, newWalletText(wallet.address, walletBefore))
  else if (before?.isNew) logger.warn({ part: 'wallet' }, otherWalletText(wallet.address, before.wallet))
  const datastore = new PeerDatastore({}, { database: localDatabase, logger })
  const version = stoaVersion()
  /** Limits how fast this node works on input from others. */
  const pace = new Pace()
  const { services: hosts, ...network } = await createHosts(config, version, {
    ...{ identity, datastore, clock, logger, pace, isShared },
  })
  const chain = await openChain(config, asset, logger)
  const facilitator = ports.facilitator ?? openFacilitator(config, secrets, { clock, logger, chain })
  const feed: NodeFeed = new Feed({ life: `${clock.now().toString(36)}${database.process.slice(0, 8)}` })
  const tail = await followShared({ isShared, database, logger })
  const trading = createTrading({ database, dataDir: config.dataDir, clock, logger })
  const looking =
    server === undefined ? [lookAtFile(dataFile(config.dataDir, 'database'), trading)] : [counting(databases)]
  const asking = chain === undefined ? [] : [askUntilRight(chain)]
  const closing = { name: 'facilitator', start: async () => {}, stop: async () => facilitator?.close() }
  return {
    ...{
      clock,
      logger,
      database,
      localDatabase,
      closeDatabases,
      lost,
      server,
      latency,
      isShared,
      wallet,
      walletBefore,
      restoredAt,
      identity,
      version,
      pace,
      ...network,
      siblings: createSiblings(database.process, network.host),
      asset,
      chain,
      facilitator,
      feed,
    },
    fetch: ports.fetch ?? patientFetch,
    random: ports.randomBytes ?? ((length: number) => randomBytes(length)),
    trading,
    runTime: await createRunTime(database, clock),
    transactions: createTransactions(database),
    tail,
    // The tail takes its position before any other service reads the ledger.
    services: [tail, datastore, ...looking, ...asking, ...hosts, closing],
  }
}

/** Counts a shared ledger on while the node runs. */
function counting({ count: work }: Pick<Databases, 'count'>): Service {
  return periodic({ name: 'ledger count', firstMs: COUNT_MS, everyMs: COUNT_MS }, { work, onError: () => {} })
}

/** Misses the file of a ledger in SQLite. */
function lookAtFile(path: string, trading: Pick<Trading, 'fileIs'>): Service {
  const placeOf = placeOfFile(path)
  const work = async () => trading.fileIs(await placeOf())
  return periodic({ name: 'ledger file', firstMs: FILE_MS, everyMs: FILE_MS }, { work, onError: () => {} })
}

/** Lets the chain say that its RPC serves another chain before a payment or a call needs it. */
function askUntilRight(chain: Pick<Chain, 'blockTimeMs'>): Service {
  const stopping = new AbortController()
  let isRight = false
  const work = async () => {
    if (isRight) return
    await chain.blockTimeMs(stopping.signal)
    isRight = true
  }
  const looks = periodic({ name: 'chain', firstMs: RPC_FIRST_MS, everyMs: RPC_MS }, { work, onError: () => {} })
  const stop = () => {
    stopping.abort()
    return looks.stop()
  }
  return { ...looks, stop }
}

/** Follows what the other processes change in a shared ledger. A ledger that is not shared has nobody to follow. */
async function followShared({
  isShared,
  database,
  logger,
}: Pick<Databases, 'isShared' | 'database'> & Pick<Ports, 'logger'>): Promise<Tail> {
  if (!isShared) return { name: 'tail', listen() {}, lagMs: () => 0, start: async () => {}, stop: async () => {} }
  const { createChangeLog } = await import('../store/postgres/change-log.ts')
  return createTail({ log: createChangeLog(database), logger })
}
