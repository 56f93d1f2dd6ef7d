import type { Hex, Network } from '../schema/primitives.ts'
import {
  type Argument,
  addressWord,
  encodeCall,
  eventTopics,
  readAddress,
  readAddresses,
  readInt,
  readText,
  readWords,
} from './abi.ts'
import type { Chain } from './chain.ts'
import { RpcRefusal, unavailable } from './rpc.ts'
import type { Log } from './usdc.ts'

/** The registries of ERC-8004 on a network. Identities are ERC-721 tokens, numbered from 0. */
type Registries = { identity: Hex; reputation: Hex }

const TESTNETS: Registries = {
  identity: '0x8004A818BFB912233c491871b3d84c89A494BD9e',
  reputation: '0x8004B663056A597Dffe9eCcC1965A193B7388713',
}
const registries: Record<Network, Registries> = {
  'eip155:84532': TESTNETS,
  'eip155:8453': {
    identity: '0x8004A169FB4a3325136EB29fA0ceB6D2e539a432',
    reputation: '0x8004BAa17C55a88189AE136b182e5fdA19dE9b63',
  },
}

const selectors = {
  register: '0xf2c298be',
  setAgentUri: '0x0af28bd3',
  tokenUri: '0xc87b56dd',
  ownerOf: '0x6352211e',
  agentWallet: '0x00339509',
  clients: '0x42dd519c',
  summary: '0x81bbba58',
  giveFeedback: '0x3c036a7e',
} as const satisfies Record<string, Hex>

/** Raters counted per agent, first ones first: anyone can rate from many accounts to outvote the others. */
const RATERS_MAX = 2_000
const DECIMALS_MAX = 18

type Summary = { count: number; value: bigint; decimals: number }
type Feedback = {
  tokenId: bigint
  value: bigint
  decimals: number
  tag1: string
  tag2: string
  endpoint: string
}

/** Reads the registries. Every method throws ChainError like the methods of Chain. */
export interface Erc8004 {
  readonly registries: Registries
  /** The accounts that hold a token and that its agent is paid on; undefined if the token does not exist. */
  holders(tokenId: bigint, signal?: AbortSignal): Promise<{ owner: Hex; wallet: Hex } | undefined>
  /** Where the registration file of a token is; undefined if the token does not exist. */
  uri(tokenId: bigint, signal?: AbortSignal): Promise<string | undefined>
  summary(tokenId: bigint, signal?: AbortSignal): Promise<Summary>
}

export function createErc8004(chain: Pick<Chain, 'network' | 'request'>): Erc8004 {
  const { identity, reputation } = registries[chain.network]
  const read = (to: Hex, selector: Hex, args: readonly Argument[], signal?: AbortSignal) =>
    chain.request('eth_call', [{ to, data: encodeCall(selector, args) }, 'latest'], signal)
  /** Reads a token; undefined if it does not exist, which is the only reason for a registry to revert. */
  const readToken = async (selector: Hex, tokenId: bigint, signal?: AbortSignal) => {
    try {
      return await read(identity, selector, [tokenId], signal)
    } catch (error) {
      if (error instanceof RpcRefusal && error.isRevert) return undefined
      throw error
    }
  }

  return {
    registries: { identity, reputation },
    async holders(tokenId, signal) {
      const owner = await readToken(selectors.ownerOf, tokenId, signal)
      if (owner === undefined) return undefined
      const wallet = await read(identity, selectors.agentWallet, [tokenId], signal)
      return { owner: readAddress(readWords(owner, 1)[0]!), wallet: readAddress(readWords(wallet, 1)[0]!) }
    },
    async uri(tokenId, signal) {
      const answer = await readToken(selectors.tokenUri, tokenId, signal)
      return answer === undefined ? undefined : readText(answer)
    },
    async summary(tokenId, signal) {
      const raters = readAddresses(await read(reputation, selectors.clients, [tokenId], signal), RATERS_MAX)
      // The registry refuses a summary without raters.
      if (raters.length === 0) return { count: 0, value: 0n, decimals: 0 }
      const args = [tokenId, { addresses: raters }, { text: '' }, { text: '' }]
      const words = readWords(await read(reputation, selectors.summary, args, signal), 3)
      const [count = 0n, value = 0n, decimals = 0n] = words
      if (count > BigInt(Number.MAX_SAFE_INTEGER)) throw unavailable('the RPC counts more ratings than there can be')
      return { count: Number(count), value: readInt(value), decimals: Math.min(Number(decimals), DECIMALS_MAX) }
    },
  }
}

/** Mints an identity whose registration file is at `uri`. */
export function encodeRegister(uri: string): Hex {
  return encodeCall(selectors.register, [{ text: uri }])
}

export function encodeSetAgentUri(tokenId: bigint, uri: string): Hex {
  return encodeCall(selectors.setAgentUri, [tokenId, { text: uri }])
}

export function encodeGiveFeedback({ tokenId, value, decimals, tag1, tag2, endpoint }: Feedback): Hex {
  const hash = { word: `0x${'0'.repeat(64)}` as Hex }
  const texts = [{ text: tag1 }, { text: tag2 }, { text: endpoint }, { text: '' }]
  return encodeCall(selectors.giveFeedback, [tokenId, value, BigInt(decimals), ...texts, hash])
}

/** The token that a registration minted for `owner`; undefined if its logs show none. */
export function registeredToken(logs: readonly Log[], identity: Hex, owner: Hex): bigint | undefined {
  const log = logs.find(
    ({ address, topics }) =>
      address === identity.toLowerCase() &&
      topics[0] === eventTopics.registered &&
      topics[2] === `0x${addressWord(owner)}`,
  )
  return log?.topics[1] === undefined ? undefined : BigInt(log.topics[1])
}
