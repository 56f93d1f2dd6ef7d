import { encodeAbiParameters, encodeFunctionData, parseAbi, toEventSelector } from 'viem'
import { expect, test } from 'vitest'
import type { Hex } from '../schema/primitives.ts'
import { encodeCall, eventTopics, readAddresses, readInt, readText, readWords } from './abi.ts'
import { createErc8004, encodeGiveFeedback, encodeRegister, encodeSetAgentUri, registeredToken } from './erc8004.ts'
import { RpcRefusal } from './rpc.ts'

const OWNER = '0x08c86B491A37C2FFC25072a17c7A97EF2D0357dd'
const RATER = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const abi = parseAbi([
  'function register(string agentURI) returns (uint256)',
  'function setAgentURI(uint256 agentId, string newURI)',
  'function tokenURI(uint256) view returns (string)',
  'function ownerOf(uint256) view returns (address)',
  'function getAgentWallet(uint256) view returns (address)',
  'function getClients(uint256) view returns (address[])',
  'function getSummary(uint256 agentId,address[] clientAddresses,string tag1,string tag2) view returns (uint64 count,int128 summaryValue,uint8 summaryValueDecimals)',
  'function giveFeedback(uint256 agentId,int128 value,uint8 valueDecimals,string tag1,string tag2,string endpoint,string feedbackURI,bytes32 feedbackHash)',
])

test.each(['', 'https://a.example/agent.json', 'ä'.repeat(16), `data:,${'x'.repeat(100)}`])(
  'registering %j is encoded as an ABI library does',
  (uri) => expect(encodeRegister(uri)).toBe(encodeFunctionData({ abi, functionName: 'register', args: [uri] })),
)

test.each(['', 'https://a.example/agent.json', 'ä'.repeat(40)])(
  'a registration file at %j is set as an ABI library encodes it, and read as it decodes it',
  async (uri) => {
    const args = [7n, uri] as const
    expect(encodeSetAgentUri(7n, uri)).toBe(encodeFunctionData({ abi, functionName: 'setAgentURI', args }))
    const { erc8004 } = chainOf({ '0xc87b56dd': encodeAbiParameters([{ type: 'string' }], [uri]) })
    expect(await erc8004.uri(7n)).toBe(uri)
  },
)

test('there is no registration file without a token, and none in what is not text', async () => {
  const none = chainOf({ '0xc87b56dd': new RpcRefusal('execution reverted', true) })
  expect(await none.erc8004.uri(7n)).toBeUndefined()
  const word = (value: bigint) => value.toString(16).padStart(64, '0')
  for (const words of [[32n, 33n, 0n], [64n, 0n], [32n, 1n, 0xffn << 248n], [32n]]) {
    expect(() => readText(`0x${words.map(word).join('')}`)).toThrow('the RPC')
  }
})

test.each([95n, -7n, 0n])('feedback of %d is encoded as an ABI library does', (value) => {
  const feedback = { tokenId: 2n ** 200n, value, decimals: 2, tag1: 'stoa', tag2: '', endpoint: 'libp2p:/x402' }
  const args = [feedback.tokenId, value, 2, 'stoa', '', 'libp2p:/x402', '', `0x${'0'.repeat(64)}`] as const
  expect(encodeGiveFeedback(feedback)).toBe(encodeFunctionData({ abi, functionName: 'giveFeedback', args }))
})

test('the event of a registration is the standard’s, and only that of the registry and the owner counts', () => {
  expect(eventTopics.registered).toBe(toEventSelector('Registered(uint256,string,address)'))
  const { identity } = chainOf({}).erc8004.registries
  const word = (hex: string) => `0x${hex.slice(2).toLowerCase().padStart(64, '0')}` as Hex
  const log = {
    address: identity.toLowerCase() as Hex,
    topics: [eventTopics.registered, word('0x0'), word(OWNER)] as Hex[],
    ...{ data: '0x' as Hex, transactionHash: word('0x1'), logIndex: 0 },
  }
  expect(registeredToken([log], identity, OWNER)).toBe(0n)
  expect(registeredToken([log], identity, RATER)).toBeUndefined()
  expect(registeredToken([{ ...log, address: RATER.toLowerCase() as Hex }], identity, OWNER)).toBeUndefined()
})

/** A chain that answers each function with what is given. */
function chainOf(answers: Record<string, unknown>) {
  const asked: string[] = []
  const request = async (_method: string, params: readonly unknown[]) => {
    const { data } = params[0] as { data: Hex }
    const answer = Object.entries(answers).find(([selector]) => data.startsWith(selector))?.[1]
    asked.push(data)
    if (answer instanceof Error) throw answer
    return answer
  }
  return { asked, erc8004: createErc8004({ network: 'eip155:84532', request }) }
}
const addressWord = (address: Hex) => encodeAbiParameters([{ type: 'address' }], [address])

test('holders of a token, and none where the registry knows none', async () => {
  const { erc8004 } = chainOf({ '0x6352211e': addressWord(OWNER), '0x00339509': addressWord(RATER) })
  const lower = (address: string) => address.toLowerCase()
  expect(await erc8004.holders(0n)).toEqual({ owner: lower(OWNER), wallet: lower(RATER) })
  const none = chainOf({ '0x6352211e': new RpcRefusal('execution reverted', true) })
  expect(await none.erc8004.holders(7n)).toBeUndefined()
  const broken = chainOf({ '0x6352211e': new RpcRefusal('rate limited') })
  await expect(broken.erc8004.holders(7n)).rejects.toThrow('rate limited')
})

test('a summary asks for all raters, and for none where there are none', async () => {
  const clients = encodeAbiParameters([{ type: 'address[]' }], [[OWNER, RATER]])
  const words = encodeAbiParameters([{ type: 'uint64' }, { type: 'int128' }, { type: 'uint8' }], [2n, -350n, 1])
  const { erc8004, asked } = chainOf({ '0x42dd519c': clients, '0x81bbba58': words })
  expect(await erc8004.summary(5n)).toEqual({ count: 2, value: -350n, decimals: 1 })
  expect(asked[1]).toBe(encodeFunctionData({ abi, functionName: 'getSummary', args: [5n, [OWNER, RATER], '', ''] }))
  const nobody = chainOf({ '0x42dd519c': encodeAbiParameters([{ type: 'address[]' }], [[]]) })
  expect(await nobody.erc8004.summary(5n)).toEqual({ count: 0, value: 0n, decimals: 0 })
  expect(nobody.asked).toHaveLength(1)
  const lie = encodeAbiParameters([{ type: 'uint256' }, { type: 'int128' }, { type: 'uint8' }], [2n ** 200n, 1n, 0])
  await expect(chainOf({ '0x42dd519c': clients, '0x81bbba58': lie }).erc8004.summary(5n)).rejects.toThrow('the RPC')
})

test.each([
  ['nothing', '0x'],
  ['half a word', `0x${'0'.repeat(30)}`],
  ['no text', 7],
  ['a length beyond its end', `0x${'20'.padStart(64, '0')}${'ff'.padStart(64, '0')}`],
  ['another offset', `0x${'40'.padStart(64, '0')}${'0'.padStart(64, '0')}`],
  ['an address of more than 20 bytes', `0x${'20'.padStart(64, '0')}${'1'.padStart(64, '0')}${'f'.repeat(64)}`],
])('a list of addresses that is %s is refused (T13)', (_about, result) => {
  expect(() => readAddresses(result, 10)).toThrow(/RPC/)
})

test('of a list longer than anyone can read the first are read', () => {
  const many = Array.from({ length: 5 }, () => OWNER)
  const list = encodeAbiParameters([{ type: 'address[]' }], [many as Hex[]])
  expect(readAddresses(list, 3)).toEqual(Array(3).fill(OWNER.toLowerCase()))
})

test('words, and integers below zero', () => {
  expect(readWords(`0x${'f'.repeat(64)}`, 1).map(readInt)).toEqual([-1n])
  expect(() => readWords('0x', 1)).toThrow('does not answer as this contract would')
  expect(encodeCall('0x00000000', [{ addresses: [] }])).toBe(`0x00000000${'20'.padStart(64, '0')}${'0'.repeat(64)}`)
})
