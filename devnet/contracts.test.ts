import { type Abi, type AbiFunction, toEventSelector, toFunctionSelector, toFunctionSignature } from 'viem'
import { describe, expect, it } from 'vitest'
import { channelVectors } from '../test/support/channel-vectors.ts'
import { addresses, type ContractName, contractNames, hashSources, readArtifact, readSources } from './contracts.ts'

const artifact = readArtifact()

function functionsOf(name: ContractName): Map<string, string> {
  const abi = artifact.contracts[name].abi as Abi
  const functions = abi.filter((item): item is AbiFunction => item.type === 'function')
  return new Map(functions.map((item) => [toFunctionSelector(item), item.name]))
}

function topicsOf(name: ContractName): string[] {
  const abi = artifact.contracts[name].abi as Abi
  return abi.filter((item) => item.type === 'event').map((item) => toEventSelector(item))
}

/**
 * Selectors and topics of the contracts on Base. Clients that call those contracts must find the same selectors here.
 */
const selectors: Partial<Record<ContractName, Record<string, string>>> = {
  UsdcLike: {
    '0xe3ee160e': 'transferWithAuthorization',
    '0xcf092995': 'transferWithAuthorization',
    '0xef55bec6': 'receiveWithAuthorization',
    '0x5a049a70': 'cancelAuthorization',
    '0xb7b72899': 'cancelAuthorization',
    '0xe94a0102': 'authorizationState',
    '0x3644e515': 'DOMAIN_SEPARATOR',
    '0x54fd4d50': 'version',
  },
  IdentityRegistry: {
    '0x1aa3a008': 'register',
    '0xf2c298be': 'register',
    '0x8ea42286': 'register',
    '0x0af28bd3': 'setAgentURI',
    '0xc87b56dd': 'tokenURI',
    '0x6352211e': 'ownerOf',
    '0xcb4799f2': 'getMetadata',
    '0x466648da': 'setMetadata',
    '0x00339509': 'getAgentWallet',
    '0x2d1ef5ae': 'setAgentWallet',
    '0x3fddcf19': 'unsetAgentWallet',
  },
  ReputationRegistry: {
    '0x3c036a7e': 'giveFeedback',
    '0x81bbba58': 'getSummary',
    '0xd9d84224': 'readAllFeedback',
    '0x42dd519c': 'getClients',
    '0xf2d81759': 'getLastIndex',
    '0x232b0810': 'readFeedback',
    '0x4ab3ca99': 'revokeFeedback',
  },
  Multicall: { '0x82ad56cb': 'aggregate3', '0xbce38bd7': 'tryAggregate' },
}

describe('the compiled contracts', () => {
  it('match their sources: run `node devnet/compile.ts` after a change', () => {
    expect(artifact.sourceHash).toBe(hashSources(readSources()))
  })

  it('change their hash with every source, but not with line endings', () => {
    const sources = readSources()
    expect(hashSources({ ...sources, 'UsdcLike.sol': `${sources['UsdcLike.sol']} ` })).not.toBe(artifact.sourceHash)
    const windows = Object.entries(sources).map(([file, text]) => [file, text.replaceAll('\n', '\r\n')])
    expect(hashSources(Object.fromEntries(windows))).toBe(artifact.sourceHash)
  })

  it.each(contractNames)('%s has code', (name) => {
    expect(artifact.contracts[name].bytecode).toMatch(/^0x[0-9a-f]{200,}$/)
  })

  it.each(Object.entries(selectors))('%s has the functions of the contract on Base', (name, expected) => {
    const functions = functionsOf(name as ContractName)
    for (const [selector, functionName] of Object.entries(expected)) {
      expect(functions.get(selector), selector).toBe(functionName)
    }
  })

  it('of payment channels have the functions, errors and events of the contracts on Base', () => {
    const abis = [artifact.contracts.BatchSettlement.abi, artifact.contracts.Erc3009DepositCollector.abi] as Abi[]
    const named = abis.flat().filter((item) => item.type === 'function' || item.type === 'error')
    // An error has the selector of a function of its name.
    const functions = named.map(({ name, inputs }) => ({ type: 'function', name, inputs }) as AbiFunction)
    const selectors = functions.map((item) => [toFunctionSignature(item), toFunctionSelector(item)])
    expect(Object.fromEntries(selectors)).toMatchObject(channelVectors.selectors)
    expect(topicsOf('BatchSettlement')).toEqual(expect.arrayContaining(Object.values(channelVectors.topics)))
    expect(addresses).toMatchObject({
      batchSettlement: channelVectors.contracts.x402BatchSettlement,
      erc3009DepositCollector: channelVectors.contracts.ERC3009DepositCollector,
    })
  })

  it('have the events of the contracts on Base', () => {
    expect(topicsOf('UsdcLike')).toContain('0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5')
    expect(topicsOf('UsdcLike')).toContain('0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81')
    expect(topicsOf('IdentityRegistry').some((topic) => topic.startsWith('0xca52e62c'))).toBe(true)
    expect(topicsOf('ReputationRegistry').some((topic) => topic.startsWith('0x6a4a6174'))).toBe(true)
  })
})
