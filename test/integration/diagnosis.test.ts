/** A node tells what is wrong with it, as it is, with the settings it runs with. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { generatePrivateKey } from 'viem/accounts'
import { afterAll, expect, test } from 'vitest'
import { systemParts } from '../../src/cli/parts.ts'
import { cli } from '../cli/harness.ts'
import { startTestNode, stopTestNodes } from '../support/loopback-node.ts'

afterAll(stopTestNodes)

type Row = { id: string; state: string; text: string }

test('stoa doctor finds a running node well whose facilitator answers, and not once that is down', async () => {
  const facilitator = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ kinds: [{ x402Version: 2, scheme: 'exact', network: 'eip155:84532' }] }))
  })
  await new Promise<void>((resolve) => facilitator.listen(0, '127.0.0.1', resolve))
  const facilitatorUrl = `http://127.0.0.1:${(facilitator.address() as AddressInfo).port}`
  const node = await startTestNode({
    key: generatePrivateKey(),
    apiEnabled: true,
    facilitatorUrl,
    rpcUrl: 'http://127.0.0.1:1',
  })
  await node.registerAgent({ name: 'Echo', description: 'd', price: 1n, model: 'builtin/echo' }, { persist: false })
  await node.ownAgents.keep({ name: 'Keyless', description: 'd', price: 1n, model: 'openai/x' })
  const examine = async (): Promise<Row[]> => {
    // The shell knows nothing of the node's settings, but where its directory is.
    const { stdout } = await cli(['doctor', '--json'], { dataDir: node.dataDir, parts: systemParts })
    return (JSON.parse(stdout) as { checks: Row[] }).checks
  }
  const of = (rows: Row[], id: string) => rows.find((row) => row.id === id)
  const well = await examine()
  expect(of(well, 'facilitator')).toMatchObject({ state: 'ok', text: expect.stringContaining('127.0.0.1:') })
  expect(of(well, 'agents')).toMatchObject({
    state: 'fail',
    text: expect.stringMatching(/^Keyless: .*not on the market/),
  })
  expect(of(well, 'rpc')).toMatchObject({ state: 'fail', text: expect.stringContaining('127.0.0.1:1') })
  for (const id of ['wallet_key', 'p2p_port', 'api_port']) expect(of(well, id)).toMatchObject({ id, state: 'ok' })
  facilitator.close()
  facilitator.closeAllConnections()
  expect(of(await examine(), 'facilitator')).toMatchObject({
    state: 'fail',
    text: expect.stringContaining('cannot be reached'),
  })
})
