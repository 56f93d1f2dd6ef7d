import { expect, test } from 'vitest'
import { listingFixture } from '../../test/support/fake-api.ts'
import { registrationUri } from './registration-file.ts'

const listing = listingFixture({ id: 'agentagentagentagent234567agents', name: 'Süd', network: 'eip155:84532' })
const identity = '0x8004A818BFB912233c491871b3d84c89A494BD9e'

function fileOf(changes: Partial<Parameters<typeof registrationUri>[0]> = {}) {
  const none = { image: undefined, publicUrl: undefined, tokenId: undefined }
  const uri = registrationUri({ listing, identity, ...none, ...changes })
  return JSON.parse(Buffer.from(uri.slice('data:application/json;base64,'.length), 'base64').toString())
}

test('a registration file before the mint names no token, and its services are those of libp2p alone', () => {
  const file = fileOf()
  expect(file).toMatchObject({
    type: 'https://eips.ethereum.org/EIPS/eip-8004#registration-v1',
    name: 'Süd',
    ...{ x402Support: true, active: true, registrations: [], supportedTrust: ['reputation'] },
  })
  expect(file.services.map(({ name }: { name: string }) => name)).toEqual(['DID', 'x402-libp2p'])
  expect(file).not.toHaveProperty('image')
})

test('after the mint it names the token, the first of which is 0, and the registry with its chain', () => {
  const agentRegistry = `eip155:84532:${identity}`
  expect(fileOf({ tokenId: '0' }).registrations).toEqual([{ agentId: 0, agentRegistry }])
  const large = `${2n ** 200n}`
  expect(fileOf({ tokenId: large }).registrations).toEqual([{ agentId: large, agentRegistry }])
})

test('with a public URL and an image it names them, and where A2A and MCP are', () => {
  const file = fileOf({ publicUrl: 'https://node.example/stoa', image: 'https://node.example/a.png' })
  expect(file.image).toBe('https://node.example/a.png')
  expect(file.services.slice(0, 2)).toEqual([
    {
      name: 'A2A',
      endpoint: `https://node.example/stoa/a2a/${listing.id}/.well-known/agent-card.json`,
      version: '1.0',
    },
    { name: 'MCP', endpoint: 'https://node.example/stoa/mcp', version: '2025-11-25' },
  ])
})
