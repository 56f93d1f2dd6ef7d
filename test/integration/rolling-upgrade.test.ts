/**
 * Three processes of a seller are replaced, one after the other, by those of this code while a buyer calls them.
 *
 * `STOA_TEST_UPGRADE_FROM=<git ref> vitest run --project node test/integration/rolling-upgrade.test.ts` checks that version out
 * beside this one. Its packages are those of this checkout, so both need the same.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../../devnet/devnet.ts'
import { migrations } from '../../src/store/postgres/migrations.ts'
import { startTestNode, stopTestNodes } from '../support/loopback-node.ts'
import { killNodeProcesses } from '../support/node-process.ts'
import { openSellerFleet } from '../support/seller-fleet.ts'

const from = process.env.STOA_TEST_UPGRADE_FROM
const ROOT = resolve(import.meta.dirname, '../..')
const PROCESSES = ['a', 'b', 'c']
const git = (...args: string[]) => execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8' })
let devnet: Devnet | undefined
let checkout: string | undefined

afterAll(async () => {
  await killNodeProcesses()
  await stopTestNodes()
  await devnet?.stop()
  if (checkout === undefined) return
  await rm(join(checkout, 'node_modules'))
  git('worktree', 'remove', '--force', checkout)
})

test.skipIf(from === undefined)(
  'T16 T17 an upgrade of one process after the other fails no call',
  async () => {
    checkout = join(await mkdtemp(join(tmpdir(), 'stoa-before-')), 'stoa')
    git('worktree', 'add', '--detach', checkout, from!)
    await symlink(join(ROOT, 'node_modules'), join(checkout, 'node_modules'))
    const settings = await readFile(join(checkout, 'src/config/settings.ts'), 'utf8')
    const canDrain = settings.includes('seller.drain_seconds')
    // At first only tests could share a ledger.
    const before = {
      canDrain,
      faultyNode: join(checkout, 'test/support/faulty-node.ts'),
      environment: { STOA_TEST_SHARED: '1' },
    }
    devnet = await startDevnet()
    const { rpcUrl, facilitatorUrl, wallets } = devnet
    const key = wallets.buyer.privateKey
    const buyer = await startTestNode({ key, rpcUrl, facilitatorUrl, dailyBudgetAtomic: 100_000_000n })
    const fleet = await openSellerFleet(PROCESSES, { devnet, buyer, isEmpty: true })
    for (const name of PROCESSES) await fleet.start(name, before)
    const schema = await fleet.schema()
    const calls = fleet.buy()
    for (const name of PROCESSES) {
      await calls.some()
      expect(await fleet.stop(name)).toEqual({ code: 0, signal: null })
      await fleet.start(name)
      // Processes of both versions serve calls on the schema of the later one.
      expect(await fleet.schema()).toBe(migrations.length)
      await calls.some()
    }
    const outcomes = await calls.end()
    const { length } = outcomes
    const failed = outcomes.filter((outcome) => outcome !== 'done')
    // Versions that cannot drain give calls 2 s when they stop. What they cut off is not charged.
    const isCutOff = (reason: string) => !canDrain && /nothing is charged/.test(reason)
    expect(failed.filter((reason) => !isCutOff(reason))).toEqual([])
    const account = await fleet.account()
    process.stdout.write(
      `from ${from}, schema ${schema} to ${migrations.length}: ${length} calls, ${JSON.stringify(account)}\n`,
    )
    expect(account).toMatchObject({ different: account.runs, paid: length - failed.length })
  },
  600_000,
)
