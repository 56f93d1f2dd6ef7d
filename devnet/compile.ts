/**
 * Compiles contracts/*.sol and writes contracts.artifact.json. Run `node devnet/compile.ts` after changing a contract.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type ContractArtifact, compilerSettings, contractNames, hashSources, readSources } from './contracts.ts'

type SolcError = { severity: 'error' | 'warning' | 'info'; errorCode?: string; formattedMessage: string }
type SolcOutput = {
  errors?: SolcError[]
  contracts?: Record<string, Record<string, { abi: object[]; evm: { bytecode: { object: string } } }>>
}
type Solc = {
  version(): string
  compile(input: string, callbacks: { import(path: string): { contents: string } | { error: string } }): string
}

/** A warning that every use of transient storage gets. The guard of BatchSettlement clears what it writes. */
const TRANSIENT_STORAGE_WARNING = '2394'

const require = createRequire(import.meta.url)

/** @throws Error with the compiler's message if a contract does not compile. */
export function compile(): ContractArtifact {
  const solc = require('solc') as Solc
  const sources = readSources()
  const input = {
    language: 'Solidity',
    sources: Object.fromEntries(Object.entries(sources).map(([file, content]) => [file, { content }])),
    settings: { ...compilerSettings, outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } } },
  }
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: readImport })) as SolcOutput
  const problems = (output.errors ?? []).filter(
    ({ severity, errorCode }) => severity !== 'info' && errorCode !== TRANSIENT_STORAGE_WARNING,
  )
  if (problems.length > 0) throw new Error(problems.map((problem) => problem.formattedMessage).join('\n'))
  const contracts = contractNames.map((name) => {
    const contract = output.contracts?.[`${name}.sol`]?.[name]
    if (contract === undefined) throw new Error(`contracts/${name}.sol has no contract ${name}`)
    return [name, { abi: contract.abi, bytecode: `0x${contract.evm.bytecode.object}` }]
  })
  return {
    compiler: `solc ${solc.version()}`,
    sourceHash: hashSources(sources),
    contracts: Object.fromEntries(contracts),
  }
}

function readImport(path: string): { contents: string } | { error: string } {
  try {
    return { contents: readFileSync(require.resolve(path), 'utf8') }
  } catch {
    return { error: `${path} is not installed` }
  }
}

if (import.meta.main) {
  const artifact = compile()
  writeFileSync(new URL('./contracts.artifact.json', import.meta.url), `${JSON.stringify(artifact, null, 1)}\n`)
  console.log(`contracts.artifact.json: ${contractNames.join(', ')} by ${artifact.compiler}`)
}
