/** A node that starts with another wallet than before says so, until it is back or its operator has seen it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { NodeStatus } from '../../src/schema/api.ts'
import { ask } from '../support/api-calls.ts'
import { startNode, runStoa as stoa } from '../support/cli-node.ts'
import { onServer } from '../support/ledger-engine.ts'

const keys = { mine: generatePrivateKey(), other: generatePrivateKey() }
const addresses = { mine: privateKeyToAccount(keys.mine).address, other: privateKeyToAccount(keys.other).address }
let home: string
let node: Awaited<ReturnType<typeof startNode>> | undefined

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-wallet-'))
})
afterEach(async () => {
  await node?.stop()
  await rm(home, { recursive: true, force: true })
})

const place = () => ['--data-dir', join(home, 'node')]
const run = (...words: string[]) => stoa([...words, ...place()], {})
async function start(key: keyof typeof keys) {
  await node?.stop()
  const flags = ['--port', '0', '--api-port', '0', '--no-mdns', '--no-public-dht']
  node = await startNode([...flags, ...place()], { NODE_LISTEN_HOST: '127.0.0.1', ETHEREUM_PRIVATE_KEY: keys[key] })
  return node
}
// A ledger in PostgreSQL refuses another wallet: LEDGER_OF_ANOTHER.
test.skipIf(onServer)('the change is told by the log, the status and an alarm', async () => {
  await start('mine')
  expect(await run('status')).not.toContain('another than before')
  const changed = await start('other')
  expect(changed.log()).toContain(`this node used the wallet ${addresses.mine} before, and now uses ${addresses.other}`)
  expect(await run('status')).toContain(`another than before: ${addresses.mine}`)
  expect(await run('alarms', 'list')).toMatch(/wallet_changed.*This node uses another wallet than before/)

  // After another start it is still so, until it was dismissed.
  await start('other')
  await run('alarms', 'dismiss', 'wallet_changed')
  expect(await run('alarms', 'list')).not.toContain('wallet_changed')

  const back = await start('mine')
  expect(back.log()).not.toContain('this node used the wallet')
  expect((await ask<NodeStatus>(back.ready.api_url, '/status')).wallet_before).toBeUndefined()
})
