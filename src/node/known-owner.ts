import type { Config } from '../config/config.ts'
import type { Secrets } from '../config/secrets.ts'
import { readIdentity } from '../p2p/identity.ts'
import { walletAddress } from '../payments/wallet.ts'
import { readWalletKey } from '../payments/wallet-key.ts'
import { dataFile } from '../store/data-dir.ts'
import type { KnownOwner } from '../store/ledger-owner.ts'

/**
 * The identity of a node by its keys. Makes no keys: if the node is then refused, they would stay behind.
 *
 * @throws CodedError if a key file cannot be used
 */
export async function knownOwner(
  { dataDir, network }: Pick<Config, 'dataDir' | 'network'>,
  secrets: Pick<Secrets, 'walletKey'>,
): Promise<KnownOwner> {
  const [identity, key] = await Promise.all([
    readIdentity(dataFile(dataDir, 'identity')),
    readWalletKey(dataDir, secrets),
  ])
  return { seller: identity?.peerId, wallet: key && walletAddress(key), network }
}
