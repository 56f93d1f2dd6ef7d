/** stoa stop ends the node of a data directory in good order, and no other. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import { lockDataDir } from '../../src/store/lock.ts'
import { writeNodeFile } from '../../src/store/node-file.ts'
import { cli } from '../cli/harness.ts'
import { stopTestNodes, testDir } from '../support/loopback-node.ts'
import { startNodeProcess } from '../support/node-process.ts'

afterAll(stopTestNodes)

test('a running node is stopped in good order, and then there is none to stop', async () => {
  const dataDir = await testDir()
  const environment = { NODE_DATA_DIR: dataDir, ETHEREUM_PRIVATE_KEY: generatePrivateKey() }
  const node = await startNodeProcess({ args: [], environment })
  const stop = () => cli(['stop'], { dataDir, parts: systemParts })
  expect(await stop()).toMatchObject({ code: 0, stdout: `stopped (pid ${node.child.pid})\n` })
  expect(await node.exited).toEqual({ code: 0, signal: null })
  expect(await stop()).toMatchObject({
    code: 6,
    stderr: expect.stringContaining(`no Stoa node is running on ${dataDir}`),
  })
})

test('a process that only has the pid of a node that was killed is left alone', async () => {
  const dataDir = await testDir()
  const started_at = '2026-01-01T00:00:00.000Z'
  await writeNodeFile(dataDir, { pid: process.pid, peer_id: '12D3KooW', addresses: [], started_at })
  expect(await cli(['stop'], { dataDir, parts: systemParts })).toMatchObject({ code: 6 })
})

test('a worker, which has no API, is named with how it is stopped, and left alone', async () => {
  const dataDir = await testDir()
  await writeFile(join(dataDir, 'worker.key'), 'a key')
  const lock = lockDataDir(dataDir)
  onTestFinished(() => lock.release())
  const { code, stderr } = await cli(['stop'], { dataDir, parts: systemParts })
  expect([code, stderr]).toEqual([
    6,
    expect.stringContaining(`A worker runs there (pid ${process.pid}): stop it with Ctrl-C`),
  ])
})
