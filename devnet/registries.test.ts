import { type Hex, parseAbi, parseEventLogs, toHex, zeroHash } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { secondsFromNow } from '../test/support/signed-payment.ts'
import { CHAIN_ID, type DevChain, startChain } from './chain.ts'
import { addresses } from './contracts.ts'

/** The ABI of the ERC-8004 registry on Base. */
const identityAbi = parseAbi([
  'event Registered(uint256 indexed agentId, string agentURI, address indexed owner)',
  'function register() returns (uint256)',
  'function register(string agentURI) returns (uint256)',
  'function register(string agentURI, (string metadataKey, bytes metadataValue)[] metadata) returns (uint256)',
  'function setAgentURI(uint256 agentId, string newURI)',
  'function tokenURI(uint256 agentId) view returns (string)',
  'function ownerOf(uint256 agentId) view returns (address)',
  'function transferFrom(address from, address to, uint256 agentId)',
  'function getMetadata(uint256 agentId, string key) view returns (bytes)',
  'function setMetadata(uint256 agentId, string key, bytes value)',
  'function getAgentWallet(uint256 agentId) view returns (address)',
  'function setAgentWallet(uint256 agentId, address newWallet, uint256 deadline, bytes signature)',
  'function unsetAgentWallet(uint256 agentId)',
  'error ERC721NonexistentToken(uint256 tokenId)',
])
const reputationAbi = parseAbi([
  'event NewFeedback(uint256 indexed agentId,address indexed clientAddress,uint64 feedbackIndex,int128 value,uint8 valueDecimals,string indexed indexedTag1,string tag1,string tag2,string endpoint,string feedbackURI,bytes32 feedbackHash)',
  'function giveFeedback(uint256 agentId,int128 value,uint8 valueDecimals,string tag1,string tag2,string endpoint,string feedbackURI,bytes32 feedbackHash)',
  'function getSummary(uint256 agentId,address[] clientAddresses,string tag1,string tag2) view returns (uint64 count,int128 summaryValue,uint8 summaryValueDecimals)',
  'function readAllFeedback(uint256 agentId,address[] clientAddresses,string tag1,string tag2,bool includeRevoked) view returns (address[] clients,uint64[] feedbackIndexes,int128[] values,uint8[] valueDecimals,string[] tag1s,string[] tag2s,bool[] revokedStatuses)',
  'function getClients(uint256 agentId) view returns (address[])',
  'function getLastIndex(uint256 agentId,address client) view returns (uint64)',
  'function readFeedback(uint256 agentId,address client,uint64 index) view returns (int128 value,uint8 valueDecimals,string tag1,string tag2,bool isRevoked)',
  'function revokeFeedback(uint256 agentId,uint64 index)',
])
const identity = { address: addresses.identityRegistry, abi: identityAbi } as const
const reputation = { address: addresses.reputationRegistry, abi: reputationAbi } as const

let chain: DevChain
const seller = privateKeyToAccount(generatePrivateKey())
const clients = [1, 2, 3].map(() => privateKeyToAccount(generatePrivateKey()))
const [alice, bob, carol] = clients as [PrivateKeyAccount, PrivateKeyAccount, PrivateKeyAccount]

beforeAll(async () => {
  chain = await startChain()
  await Promise.all([seller, ...clients].map((account) => chain.fundGas(account.address)))
})
afterAll(() => chain.stop())

type Write = { account: PrivateKeyAccount; address: Hex; functionName: string; args?: readonly unknown[]; abi: unknown }

/** Simulates the call first, so that a revert carries its reason, then sends it and waits. */
async function write(call: Write) {
  const { request } = await chain.client.simulateContract(call as never)
  const hash = await chain.client.writeContract(request as never)
  return chain.client.waitForTransactionReceipt({ hash })
}

async function register(account: PrivateKeyAccount, ...args: readonly unknown[]): Promise<bigint> {
  const { logs } = await write({ ...identity, account, functionName: 'register', args })
  const [registered] = parseEventLogs({ abi: identityAbi, eventName: 'Registered', logs })
  return registered?.args.agentId as bigint
}

function rate(account: PrivateKeyAccount, agentId: bigint, value: bigint, decimals = 0, tag1 = '', tag2 = '') {
  const args = [agentId, value, decimals, tag1, tag2, 'https://agent.example', 'ipfs://feedback', zeroHash]
  return write({ ...reputation, account, functionName: 'giveFeedback', args })
}

function summary(agentId: bigint, from: readonly Hex[], tag1 = '', tag2 = '') {
  return chain.client.readContract({ ...reputation, functionName: 'getSummary', args: [agentId, from, tag1, tag2] })
}

describe('the identity registry', () => {
  it('assigns ids from 0, with every form of register', async () => {
    expect(await register(seller)).toBe(0n)
    expect(await register(seller, 'https://a.example/agent.json')).toBe(1n)
    const metadata = [{ metadataKey: 'region', metadataValue: toHex('eu') }]
    expect(await register(seller, 'https://b.example/agent.json', metadata)).toBe(2n)
    const read = (functionName: 'ownerOf' | 'tokenURI' | 'getAgentWallet', id: bigint) =>
      chain.client.readContract({ ...identity, functionName, args: [id] })
    expect(await read('ownerOf', 0n)).toBe(seller.address)
    expect(await read('tokenURI', 0n)).toBe('')
    expect(await read('tokenURI', 1n)).toBe('https://a.example/agent.json')
    expect(await read('getAgentWallet', 2n)).toBe(seller.address)
    const region = { ...identity, functionName: 'getMetadata', args: [2n, 'region'] } as const
    expect(await chain.client.readContract(region)).toBe(toHex('eu'))
  })

  it('reverts with ERC721NonexistentToken for an agent that does not exist', async () => {
    const read = chain.client.readContract({ ...identity, functionName: 'ownerOf', args: [999n] })
    await expect(read).rejects.toThrow('ERC721NonexistentToken')
  })

  it('lets only the owner change URI and metadata, and nobody change the reserved key', async () => {
    const agentId = await register(seller, 'https://old.example')
    const set = { ...identity, functionName: 'setAgentURI', args: [agentId, 'https://new.example'] }
    await expect(write({ ...set, account: alice })).rejects.toThrow('Not authorized')
    await write({ ...set, account: seller })
    expect(await chain.client.readContract({ ...identity, functionName: 'tokenURI', args: [agentId] })).toBe(
      'https://new.example',
    )
    const reserved = { ...identity, functionName: 'setMetadata', args: [agentId, 'agentWallet', alice.address] }
    await expect(write({ ...reserved, account: seller })).rejects.toThrow('reserved key')
  })

  it('changes the wallet only with the signature of the new wallet, and removes it when the agent is transferred', async () => {
    const agentId = await register(seller)
    const deadline = secondsFromNow(200)
    const sign = (signer: PrivateKeyAccount) =>
      signer.signTypedData({
        domain: {
          name: 'ERC8004IdentityRegistry',
          version: '1',
          chainId: CHAIN_ID,
          verifyingContract: addresses.identityRegistry,
        },
        types: {
          AgentWalletSet: [
            { name: 'agentId', type: 'uint256' },
            { name: 'newWallet', type: 'address' },
            { name: 'owner', type: 'address' },
            { name: 'deadline', type: 'uint256' },
          ],
        },
        primaryType: 'AgentWalletSet',
        message: { agentId, newWallet: alice.address, owner: seller.address, deadline },
      })
    const set = async (signer: PrivateKeyAccount) => {
      const args = [agentId, alice.address, deadline, await sign(signer)]
      return write({ ...identity, account: seller, functionName: 'setAgentWallet', args })
    }
    const wallet = () => chain.client.readContract({ ...identity, functionName: 'getAgentWallet', args: [agentId] })
    await expect(set(bob)).rejects.toThrow('invalid wallet sig')
    await set(alice)
    expect(await wallet()).toBe(alice.address)
    const args = [seller.address, bob.address, agentId]
    await write({ ...identity, account: seller, functionName: 'transferFrom', args })
    expect(await wallet()).toBe('0x0000000000000000000000000000000000000000')
  })
})

describe('the reputation registry', () => {
  it('truncates the average to the most frequent decimals: 87 and 99.50 make 93', async () => {
    const agentId = await register(seller)
    await rate(alice, agentId, 87n)
    await rate(bob, agentId, 9950n, 2)
    expect(await summary(agentId, [alice.address, bob.address])).toEqual([2n, 93n, 0])
    await rate(carol, agentId, 9950n, 2)
    expect(await summary(agentId, [alice.address, bob.address, carol.address])).toEqual([3n, 9533n, 2])
  })

  it('reverts on a summary without clients', async () => {
    await expect(summary(0n, [])).rejects.toThrow('clientAddresses required')
  })

  it('refuses feedback of the owner on itself, and on an agent that does not exist', async () => {
    const agentId = await register(seller)
    await expect(rate(seller, agentId, 100n)).rejects.toThrow('Self-feedback not allowed')
    await expect(rate(alice, 999n, 100n)).rejects.toThrow()
  })

  it('numbers feedback from 1 per client, emits an event, filters by tag and omits revoked feedback', async () => {
    const agentId = await register(seller)
    const { logs } = await rate(alice, agentId, 10n, 0, 'speed', 'day')
    const [event] = parseEventLogs({ abi: reputationAbi, eventName: 'NewFeedback', logs })
    expect(event?.args).toMatchObject({ agentId, clientAddress: alice.address, feedbackIndex: 1n, tag1: 'speed' })
    await rate(alice, agentId, 20n, 0, 'quality')
    await rate(bob, agentId, 30n, 0, 'speed')
    const read = (tag1: string, includeRevoked: boolean) =>
      chain.client.readContract({
        ...reputation,
        functionName: 'readAllFeedback',
        args: [agentId, [], tag1, '', includeRevoked],
      })
    expect(await chain.client.readContract({ ...reputation, functionName: 'getClients', args: [agentId] })).toEqual([
      alice.address,
      bob.address,
    ])
    const last = { ...reputation, functionName: 'getLastIndex', args: [agentId, alice.address] } as const
    expect(await chain.client.readContract(last)).toBe(2n)
    expect((await read('', false))[2]).toEqual([10n, 20n, 30n])
    expect((await read('speed', false))[2]).toEqual([10n, 30n])
    await write({ ...reputation, account: alice, functionName: 'revokeFeedback', args: [agentId, 1n] })
    expect((await read('', false))[2]).toEqual([20n, 30n])
    expect((await read('', true))[6]).toEqual([true, false, false])
    expect(await summary(agentId, [alice.address], 'speed')).toEqual([0n, 0n, 0])
    const one = { ...reputation, functionName: 'readFeedback', args: [agentId, alice.address, 1n] } as const
    expect(await chain.client.readContract(one)).toEqual([10n, 0, 'speed', 'day', true])
  })
})
