import { copyFile, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Devnet } from '../../devnet/devnet.ts'
import { reasonOf } from '../../src/lib/errors.ts'
import { loadOrCreateIdentity } from '../../src/p2p/identity.ts'
import type { Hex } from '../../src/schema/primitives.ts'
import { all } from '../../src/store/query.ts'
import { channelChain, readSellerChannels } from './channel-trade.ts'
import { askServer } from './ledger-engine.ts'
import { localAddress } from './loopback.ts'
import { discover, type TestNode, testDir } from './loopback-node.ts'
import { type NodeProcess, startNodeProcess } from './node-process.ts'
import { createTestDatabase } from './test-postgres.ts'
import { until } from './until.ts'

const PRICE = 10_000n
const AT_ONCE = 16
const UNSETTLED = all<{ n: number }>("SELECT count(*) AS n FROM payments WHERE state IN ('authorized', 'owed')")
/** Starts and settlement on busy cores. */
const WAIT = { timeoutMs: 120_000, everyMs: 50 }
/** A payment that may or may not have settled is decided at the latest when its authorization has expired, after 240 s. */
const DECIDED = { timeoutMs: 300_000, everyMs: 50 }

/** The code that a process runs, where it is not the one of the tests. */
type OtherCode = {
  /** Its `test/support/faulty-node.ts`. */
  faultyNode: string
  /** It knows `seller.drain_seconds`. */
  canDrain: boolean
  environment?: Record<string, string>
}

/**
 * Processes of one seller, by name, on one ledger. Their agent `repeat` notes each run, by its task, in one file.
 *
 * @param deps.isEmpty the first process makes the tables, by its own steps
 */
export async function openSellerFleet(
  names: readonly string[],
  { devnet, buyer, isEmpty = false }: { devnet: Devnet; buyer: TestNode; isEmpty?: boolean },
) {
  const key = generatePrivateKey()
  const database = await createTestDatabase({ isEmpty })
  const dirs = new Map(await Promise.all(names.map(async (name) => [name, await testDir()] as const)))
  const [first] = [...dirs.values()]
  const runs = join(first!, 'runs')
  const { peerId } = await loadOrCreateIdentity(join(first!, 'identity.key'))
  for (const dir of dirs.values()) {
    if (dir !== first) await copyFile(join(first!, 'identity.key'), join(dir, 'identity.key'))
    const command = `[/bin/sh, -c, 'read -r task; echo "$task" >> "$0"; sleep 0.3; printf %s "$task"', '${runs}']`
    const agents = `agents:\n  - name: repeat\n    description: repeats its task\n    price: 0.01\n    command: ${command}\n`
    await writeFile(join(dir, 'agents.yaml'), agents)
  }
  const bootstrap = localAddress(buyer.addresses())
  const running = new Map<string, NodeProcess>()
  const account: Hex = privateKeyToAccount(key).address
  const addresses = () => buyer.listings().find((one) => one.seller_id === peerId)?.addrs ?? []
  const isListed = ({ ready }: NodeProcess) => addresses().includes(ready.addresses[0]!)

  async function start(name: string, code?: OtherCode): Promise<void> {
    const config = join(dirs.get(name)!, 'config.yaml')
    // On busy cores the calls under way take longer than on a quiet machine.
    if (code?.canDrain !== false) await writeFile(config, 'seller: {drain_seconds: 60}\n')
    else await rm(config, { force: true })
    const started = await startNodeProcess({
      args: ['--data-dir', dirs.get(name)!, '--bootstrap', bootstrap],
      ...(code && { faultyNode: code.faultyNode }),
      environment: {
        ETHEREUM_RPC_URL: devnet.rpcUrl,
        FACILITATOR_URL: devnet.facilitatorUrl,
        ETHEREUM_PRIVATE_KEY: key,
        DATABASE_URL: database.address(),
        ...code?.environment,
      },
    })
    running.set(name, started)
    await until(() => isListed(started), WAIT)
  }

  return {
    start,
    /** Stops a process in good order. @returns how it ended */
    async stop(name: string): Promise<{ code: number | null; signal: string | null }> {
      const { child, exited } = running.get(name)!
      child.kill('SIGTERM')
      return exited
    },
    /** Buys, many at once, until it is told to end. @returns what each call said: `done`, or its error */
    buy() {
      const outcomes: string[] = []
      let isOver = false
      let made = 0
      const call = async (agentId: string) => {
        while (!isOver) {
          made += 1
          const input = `task ${made}`
          const bought = buyer.execute({ agentId, input, signal: AbortSignal.timeout(120_000) })
          const outcome = await bought.then(({ output }) => (output === input ? 'done' : output), reasonOf)
          outcomes.push(outcome)
          // A call that fails does so at once: without an end, the next ones would fill the memory and hide the reason.
          isOver ||= outcome !== 'done'
        }
      }
      const calls = discover(buyer, peerId, 'repeat', WAIT).then(({ id }) =>
        Promise.all(Array.from({ length: AT_ONCE }, () => call(id))),
      )
      return {
        /** Until as many more calls have ended as are made at once. */
        async some(): Promise<void> {
          const enough = outcomes.length + AT_ONCE
          await until(() => isOver || outcomes.length >= enough, WAIT)
        },
        async end(): Promise<string[]> {
          isOver = true
          await calls
          return outcomes
        },
      }
    },
    /** The runs and the money, when all is settled. `paid`: calls that the chain shows as paid, or that channels owe. */
    async account(): Promise<{ runs: number; different: number; paid: number }> {
      await until(async () => (await askServer(database.address(), UNSETTLED))[0]!.n === 0, DECIDED)
      const lines = (await readFile(runs, 'utf8').catch(() => '')).split('\n').filter(Boolean)
      const charged = (await readSellerChannels(database.address())).reduce((sum, one) => sum + one.charged, 0n)
      const { totalSettled } = await channelChain(devnet).receiver(account)
      const paid = Number(((await devnet.chain.balanceOf(account)) + charged - totalSettled) / PRICE)
      return { runs: lines.length, different: new Set(lines).size, paid }
    },
    async schema(): Promise<number> {
      return (await askServer(database.address(), all<{ n: number }>('SELECT version AS n FROM schema_version')))[0]!.n
    },
  }
}
