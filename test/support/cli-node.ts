import { type NodeProcess, startNode as startCliNode, runStoa as stoa } from '../../devnet/cli-process.ts'
import { bundledNode } from './bundled-node.ts'
import { engineEnvironment } from './ledger-engine.ts'
import { endLease } from './server-ledgers.ts'

const lastOf = new Map<string, NodeProcess>()

/** Starts a node by its command line, with its ledger on the engine that STOA_TEST_ENGINE names. */
export async function startNode(args: readonly string[], environment: Record<string, string>): Promise<NodeProcess> {
  const dataDir = dataDirOf(args)
  const engine = await engineEnvironment(dataDir)
  const last = lastOf.get(dataDir)
  // Work of a process that was killed waits for its lease, which is not what these tests are about.
  if (engine.DATABASE_URL !== undefined && last?.child.signalCode) await endLease(engine.DATABASE_URL, last.child.pid!)
  const node = await startCliNode(args, { ...engine, ...environment }, { program: await program() })
  lastOf.set(dataDir, node)
  return node
}

/** Runs a command beside the node of its data directory, or with a short-lived node of its own. */
export async function runStoa(args: readonly string[], environment: Record<string, string>): Promise<string> {
  return stoa(args, { ...(await engineEnvironment(dataDirOf(args))), ...environment }, await program())
}

/** The bundle, without a fault point. */
async function program(): Promise<[string, string]> {
  return [await bundledNode(), '-']
}

function dataDirOf(args: readonly string[]): string {
  return args[args.indexOf('--data-dir') + 1]!
}
