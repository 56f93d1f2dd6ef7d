import { createRuntimeFactory } from '../agents/create-runtime.ts'
import type { Secrets } from '../config/secrets.ts'
import { patientFetch } from '../lib/http.ts'
import type { Logger } from '../lib/logger.ts'
import { stoaVersion } from '../lib/version.ts'
import { createDialHost } from '../p2p/dial-host.ts'
import { loadOrCreateIdentity } from '../p2p/identity.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import { WORK_PROTOCOL } from '../schema/work.ts'
import { dataFile, openDataDir } from '../store/data-dir.ts'
import { lockDataDir } from '../store/lock.ts'
import { readJoinToken } from '../workers/join-token.ts'
import { openSellerAddresses } from '../workers/seller-addresses.ts'
import { workFor } from '../workers/work-for.ts'
import { openWorkerAgents } from '../workers/worker-agents.ts'

type WorkerOptions = {
  dataDir: string
  /** The join token, as the seller printed it. */
  token: string
  runsMax: number
  definitions: readonly AgentDefinition[]
}
/** What a worker tells about itself when its seller has let it in. `unknown`: agents that match none of the seller. */
export type WorkerReady = { peerId: string; sellerId: string; name: string; agents: string[]; unknown: string[] }
type WorkerPorts = {
  secrets: Pick<Secrets, 'providerKeys' | 'env'>
  logger: Logger
  fetch?: typeof fetch
  /** Called each time that the seller lets this worker in. */
  onReady(ready: WorkerReady): void
}

/**
 * Runs agents for a seller on another machine until the signal aborts. A worker has its own key, and no wallet and no ledger.
 *
 * @throws CodedError JOIN_TOKEN_INVALID, DATA_DIR_LOCKED; WorkError if the seller does not let it in
 */
export async function runWorker(options: WorkerOptions, ports: WorkerPorts, signal: AbortSignal): Promise<void> {
  const { dataDir, runsMax, definitions } = options
  const { secrets, logger, onReady } = ports
  const { peer, addrs, id, secret } = readJoinToken(options.token)
  const { notes } = await openDataDir(dataDir)
  for (const note of notes) logger.warn({}, note)
  const lock = lockDataDir(dataDir)
  try {
    const identity = await loadOrCreateIdentity(dataFile(dataDir, 'worker'), { logger })
    const createRuntime = createRuntimeFactory(
      { providerKeys: secrets.providerKeys, readKey: (name) => secrets.env(name), dataDir, loadModules: true },
      { fetch: ports.fetch ?? patientFetch, logger },
    )
    const agents = await openWorkerAgents(definitions, { createRuntime, logger })
    const names = agents.list().map(({ name }) => name)
    const seller = await openSellerAddresses(dataFile(dataDir, 'workerSeller'), { peer, addrs, logger })
    const host = await createDialHost({ identity, version: stoaVersion() })
    await host.start()
    try {
      const dial = (attempt: AbortSignal) => {
        // The last process has ended or refused the work, and may do so again. Dial another one.
        host.leave()
        return seller.dial((known) => host.openStream({ peerId: peer, addrs: known }, WORK_PROTOCOL, attempt))
      }
      const onWelcome = (name: string, said: readonly string[]) => {
        const unknown = names.filter((agent) => said.includes(agent))
        onReady({ peerId: host.peerId, sellerId: peer, name, agents: names, unknown })
        const fix = 'write the name here as the seller does, or mark the agent there with `worker: true`'
        if (unknown.length > 0) logger.warn({ agent_name: unknown.join(', ') }, `the seller has no such agent: ${fix}`)
      }
      await workFor({ id, secret, runsMax }, { agents, logger, dial, onWelcome, onAddresses: seller.learn }, signal)
    } finally {
      await host.stop()
    }
  } finally {
    lock.release()
  }
}
