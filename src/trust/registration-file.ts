import type { Listing } from '../schema/listing.ts'
import { X402_PROTOCOL } from '../schema/x402.ts'

const TYPE = 'https://eips.ethereum.org/EIPS/eip-8004#registration-v1'
/** The newest protocol versions that this node supports. */
const A2A_VERSION = '1.0'
const MCP_VERSION = '2025-11-25'

type RegistrationFacts = {
  listing: Pick<Listing, 'id' | 'name' | 'description' | 'network' | 'seller_id' | 'seller_did'>
  image: string | undefined
  /** The public URL of this node's HTTP side, without a slash at the end. */
  publicUrl: string | undefined
  identity: string
  /** Undefined until the token is minted. */
  tokenId: string | undefined
}

/** The registration file as a data URI. It is stored on the chain, so no server has to keep it. */
export function registrationUri(facts: RegistrationFacts): string {
  return `data:application/json;base64,${Buffer.from(JSON.stringify(registrationFile(facts))).toString('base64')}`
}

function registrationFile({ listing, image, publicUrl, identity, tokenId }: RegistrationFacts) {
  const { id, name, description, network, seller_id, seller_did } = listing
  return {
    type: TYPE,
    name,
    description,
    ...(image !== undefined && { image }),
    services: [
      ...(publicUrl === undefined ? [] : httpServices(publicUrl, id)),
      { name: 'DID', endpoint: seller_did, version: 'v1' },
      { name: 'x402-libp2p', endpoint: `/p2p/${seller_id}${X402_PROTOCOL}#${id}`, version: '1.0.0' },
    ],
    x402Support: true,
    active: true,
    registrations:
      tokenId === undefined ? [] : [{ agentId: numberOf(tokenId), agentRegistry: `${network}:${identity}` }],
    supportedTrust: ['reputation'],
  }
}

function httpServices(publicUrl: string, id: string) {
  return [
    { name: 'A2A', endpoint: `${publicUrl}/a2a/${id}/.well-known/agent-card.json`, version: A2A_VERSION },
    { name: 'MCP', endpoint: `${publicUrl}/mcp`, version: MCP_VERSION },
  ]
}

/** The standard wants a number. Use a string if JSON cannot hold the number exactly. */
function numberOf(tokenId: string): number | string {
  return Number.isSafeInteger(Number(tokenId)) ? Number(tokenId) : tokenId
}
