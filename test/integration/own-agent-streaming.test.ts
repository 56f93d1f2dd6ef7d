/** How a paid agent shows what it says while it works is set wherever an agent is: over the API, by commands and in agents.yaml. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import type { Listing } from '../../src/schema/listing.ts'
import type { OwnAgent } from '../../src/schema/own-agent.ts'
import { cli } from '../cli/harness.ts'
import { ask, call } from '../support/api-calls.ts'
import { startTestNode, stopTestNodes, testDir } from '../support/loopback-node.ts'

afterAll(stopTestNodes)

test('an agent’s streaming is set by POST and PATCH /agents and by commands, listed, and kept in agents.yaml', async () => {
  const dataDir = await testDir()
  const node = await startTestNode({ key: generatePrivateKey(), dataDir, apiEnabled: true })
  const url = node.apiUrl!
  const agent = { name: 'Echo', description: 'repeats', price: 0.01, model: 'builtin/echo' }
  const { id } = await ask<Listing>(url, '/agents', { body: { ...agent, streaming: 'off' } })
  const said = async () => {
    const [listing, own] = [await ask<Listing>(url, `/agents/${id}`), await ask<OwnAgent[]>(url, '/agents/own')]
    const file = /streaming: (\w+)/.exec(await readFile(join(dataDir, 'agents.yaml'), 'utf8'))?.[1]
    return [listing.streaming, own[0]!.streaming, file]
  }
  expect(await said()).toEqual(['off', 'off', 'off'])
  const patch = (streaming: unknown) => call(url, `/agents/${id}`, { method: 'PATCH', body: { streaming } })
  expect(await patch('after_settlement')).toMatchObject({ status: 200 })
  expect(await said()).toEqual(['after_settlement', 'after_settlement', 'after_settlement'])
  expect(await patch(null)).toMatchObject({ status: 200 })
  expect(await said()).toEqual(['owed_once_shown', undefined, undefined])
  expect(await patch('later')).toMatchObject({ status: 400 })

  const run = (...argv: string[]) => cli(argv, { dataDir, parts: systemParts })
  expect(await run('agent', 'update', 'Echo', '--streaming', 'off')).toMatchObject({ code: 0 })
  expect(await said()).toEqual(['off', 'off', 'off'])
  const given = ['--name', 'Echo', '--description', 'repeats', '--price', '0.01', '--model', 'builtin/echo']
  expect(await run('agent', 'register', ...given, '--streaming', 'after_settlement')).toMatchObject({ code: 0 })
  expect(await said()).toEqual(['after_settlement', 'after_settlement', 'after_settlement'])
  expect(await run('agent', 'update', 'Echo', '--streaming', 'later')).toMatchObject({ code: 2 })
  expect(await run('agent', 'config', 'add', ...given, '--streaming', 'owed_once_shown')).toMatchObject({ code: 0 })
  expect(await readFile(join(dataDir, 'agents.yaml'), 'utf8')).toContain('streaming: owed_once_shown')
})
