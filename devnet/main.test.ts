import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../test/support/until.ts'
import { findAnvil, startAnvil } from './anvil.ts'

const mainPath = fileURLToPath(new URL('./main.ts', import.meta.url))
const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

function run(...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [mainPath, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  children.push(child)
  return child
}

async function output(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const text = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk) => {
    text.stdout += chunk
  })
  child.stderr?.on('data', (chunk) => {
    text.stderr += chunk
  })
  const [code] = await once(child, 'close')
  return { code, ...text }
}

type Described = { rpc_url: string; facilitator_url: string; chain_pid: number }

async function describeOf(child: ChildProcess): Promise<Described> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
  const [line] = await once(lines, 'line')
  return JSON.parse(line)
}

const chainIdAt = (rpcUrl: string) => ask(rpcUrl, 'eth_chainId')

async function ask(rpcUrl: string, method: string): Promise<string | undefined> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] })
  const headers = { 'content-type': 'application/json' }
  try {
    const answer = (await (await fetch(rpcUrl, { method: 'POST', headers, body })).json()) as { result: string }
    return answer.result
  } catch {
    return undefined
  }
}

describe('npm run devnet', () => {
  it('prints the settings for two nodes, and stops everything on Ctrl-C', async () => {
    const child = run('--json')
    const described = await describeOf(child)
    expect(await chainIdAt(described.rpc_url)).toBe('0x14a34')
    expect((await fetch(`${described.facilitator_url}/supported`)).ok).toBe(true)
    // The chain's time advances even without payments. Otherwise reservations would never end.
    const block = await ask(described.rpc_url, 'eth_blockNumber')
    await until(async () => (await ask(described.rpc_url, 'eth_blockNumber')) !== block)
    child.kill('SIGINT')
    expect((await once(child, 'close'))[0]).toBe(0)
    expect(await chainIdAt(described.rpc_url)).toBeUndefined()
    await expect(fetch(`${described.facilitator_url}/supported`)).rejects.toThrow()
  })

  it('stops the chain when it is killed', async () => {
    const child = run('--json')
    const { rpc_url } = await describeOf(child)
    child.kill('SIGKILL')
    await until(async () => (await chainIdAt(rpc_url)) === undefined)
  })

  it('prints lines that a shell can run', async () => {
    const child = run()
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
    const names: string[] = []
    for await (const line of lines) {
      const match = /^export ([A-Z_]+)=[A-Za-z0-9:/.]+$/.exec(line)
      if (match?.[1] !== undefined) names.push(match[1])
      if (line.includes('Ctrl-C')) break
    }
    expect(names).toEqual([
      'NODE_NETWORK',
      'ETHEREUM_RPC_URL',
      'FACILITATOR_URL',
      'SELLER_PRIVATE_KEY',
      'BUYER_PRIVATE_KEY',
    ])
  })

  it.each([
    [['--port', '70000'], '--port must be a port'],
    [['--facilitator-port', 'x'], '--facilitator-port must be a port'],
    [['--bogus'], '--bogus'],
    [['extra'], 'extra'],
  ])('refuses %s with one line and exit 2', async (args, words) => {
    const { code, stderr } = await output(run(...args))
    expect(code).toBe(2)
    expect(stderr).toContain(words)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })

  it('says which port is in use, exits 1 and leaves no chain behind', async () => {
    const other = await startAnvil({ chainId: 1 })
    const { port } = new URL(other.rpcUrl)
    expect(await output(run('--port', port))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`port ${port} is in use`),
    })
    expect(await output(run('--facilitator-port', port))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`port ${port} is in use`),
    })
    await other.stop()
  })

  it('reports that the chain stopped, and exits with 1', async () => {
    const child = run('--json')
    const ended = output(child)
    const { chain_pid } = await describeOf(child)
    process.kill(chain_pid, 'SIGKILL')
    expect(await ended).toMatchObject({ code: 1, stderr: expect.stringContaining('the chain stopped') })
  })
})

describe('anvil', () => {
  it('stops on request, also when asked twice', async () => {
    const anvil = await startAnvil({ chainId: 84532 })
    await anvil.stop()
    await anvil.stop()
    expect(await anvil.exited).toContain('anvil ended')
    expect(await chainIdAt(anvil.rpcUrl)).toBeUndefined()
  })

  it('names the package and both solutions if npm has no binary for the machine', () => {
    expect(() => findAnvil('linux', 'riscv64')).toThrow(/@foundry-rs\/anvil-linux-riscv64.*npm install.*--anvil/)
  })

  it('reports a binary that is not anvil', async () => {
    await expect(startAnvil({ chainId: 1, binary: '/nowhere/anvil' })).rejects.toThrow('ENOENT')
    await expect(startAnvil({ chainId: 1, binary: process.execPath })).rejects.toThrow('did not start')
  })
})
