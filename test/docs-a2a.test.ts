/** The program of docs/doors.md that buys over A2A, as it stands: with the clients of others, on a devnet. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Devnet, startDevnet } from '../devnet/devnet.ts'
import { codeOf } from './support/doc-blocks.ts'
import { startTestNode, type TestNode } from './support/test-node.ts'

const PRICE = 20_000n
let devnet: Devnet
let seller: TestNode
let home: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-docs-a2a-'))
  await symlink(new URL('../node_modules', import.meta.url).pathname, join(home, 'node_modules'))
  devnet = await startDevnet()
  const walletKey = devnet.wallets.seller.privateKey
  seller = await startTestNode({ devnet, walletKey, dataDir: join(home, 'seller'), public: { port: 0 } })
})
afterAll(async () => {
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

test('the program that buys over A2A works as it stands, and what it buys is settled on the chain', async () => {
  const definition = { name: 'Echo', description: 'Says it again.', price: PRICE }
  const { id } = await seller.node.registerAgent(definition, { persist: false, run: async (task) => task })
  const program = join(home, 'buy.mjs')
  await writeFile(program, codeOf('doors.md', 'a2a'))
  const money = () => devnet.chain.balanceOf(devnet.wallets.seller.address)
  const before = await money()
  const words = [program, `${seller.publicUrl}/a2a/${id}`, 'a task over A2A']
  const { stdout } = await promisify(execFile)(process.execPath, words, {
    env: { PATH: process.env.PATH, PRIVATE_KEY: devnet.wallets.buyer.privateKey },
  })
  expect(stdout).toBe('payment-completed\na task over A2A\n')
  expect((await money()) - before).toBe(PRICE)
})
