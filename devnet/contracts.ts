import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { batchSettlementAddress, erc3009CollectorAddress } from '../src/chain/batch-settlement.ts'
import type { Hex } from '../src/schema/primitives.ts'

/** One compiled contract: its interface and creation code. */
export type CompiledContract = { abi: readonly object[]; bytecode: Hex }

export const contractNames = [
  'UsdcLike',
  'IdentityRegistry',
  'ReputationRegistry',
  'BatchSettlement',
  'Erc3009DepositCollector',
  'OpenDepositCollector',
  'Multicall',
  'SmartWallet',
] as const
export type ContractName = (typeof contractNames)[number]

/**
 * The file that `node devnet/compile.ts` writes and the devnet loads. Compiling takes seconds, so the devnet does not
 * compile at start.
 */
export type ContractArtifact = {
  compiler: string
  sourceHash: string
  contracts: Record<ContractName, CompiledContract>
}

/** Addresses of these contracts on Base Sepolia. The devnet installs its own contracts at the same addresses. */
export const addresses = {
  usdc: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  identityRegistry: '0x8004A818BFB912233c491871b3d84c89A494BD9e',
  reputationRegistry: '0x8004B663056A597Dffe9eCcC1965A193B7388713',
  batchSettlement: batchSettlementAddress,
  erc3009DepositCollector: erc3009CollectorAddress,
  multicall: '0xcA11bde05977b3631167028862bE2a173976CA11',
} as const satisfies Record<string, Hex>

/** USDC's EIP-712 domain separator on Base Sepolia. A token with another separator refuses every real signature. */
export const USDC_DOMAIN_SEPARATOR = '0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818'

const artifactUrl = new URL('./contracts.artifact.json', import.meta.url)
export const sourcesUrl = new URL('./contracts/', import.meta.url)

export function readArtifact(): ContractArtifact {
  return JSON.parse(readFileSync(artifactUrl, 'utf8')) as ContractArtifact
}

/** The Solidity sources by file name. */
export function readSources(): Record<string, string> {
  const files = readdirSync(sourcesUrl)
    .filter((file) => file.endsWith('.sol'))
    .sort()
  return Object.fromEntries(files.map((file) => [file, readFileSync(new URL(file, sourcesUrl), 'utf8')]))
}

/** Compiler settings. The hash of the artifact covers them. */
export const compilerSettings = {
  optimizer: { enabled: true, runs: 200 },
  evmVersion: 'cancun',
  // Feedback has more fields than the stack of the classic code generator holds.
  viaIR: true,
  // The bytecode holds no metadata hash: the same source gives the same bytes on every machine.
  metadata: { bytecodeHash: 'none' },
}

/** A hash that changes with any source or setting. Line ends do not count, because git may change them. */
export function hashSources(sources: Record<string, string>): string {
  const hash = createHash('sha256').update(`${JSON.stringify(compilerSettings)}\n`)
  for (const [file, text] of Object.entries(sources)) hash.update(`${file}\n${text.replaceAll('\r\n', '\n')}\n`)
  return hash.digest('hex')
}
