/** What the documentation tells people to type is typed here: on a devnet, by real processes. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type NodeProcess, startNode } from '../devnet/cli-process.ts'
import { type Devnet, startDevnet } from '../devnet/devnet.ts'
import { commands } from '../src/cli/commands.ts'
import { ask, discovered } from './support/api-calls.ts'
import { breakingDoor } from './support/breaking-door.ts'
import { blocksOf, codeOf, hasPython } from './support/doc-blocks.ts'
import { until } from './support/until.ts'

const root = new URL('..', import.meta.url).pathname
const docs = join(root, 'docs')
const read = (name: string) => readFileSync(join(docs, name), 'utf8')
const run = promisify(execFile)

let devnet: Devnet
let home: string
let environment: Record<string, string>
let seller: NodeProcess
const stops: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'stoa-docs-'))
  devnet = await startDevnet()
  await mkdir(join(home, 'bin'))
  const shim = `#!/bin/sh\nexec ${process.execPath} ${join(root, 'bin/stoa.js')} "$@"\n`
  await writeFile(join(home, 'bin/stoa'), shim)
  await chmod(join(home, 'bin/stoa'), 0o755)
  environment = {
    PATH: `${join(home, 'bin')}:${process.env.PATH}`,
    ETHEREUM_RPC_URL: devnet.rpcUrl,
    FACILITATOR_URL: devnet.facilitatorUrl,
    NODE_LISTEN_HOST: '127.0.0.1',
    NODE_API_PORT: '0',
  }
  const agent = '--name Summarizer --description Summarizes --price 0.01 --model builtin/summarize'
  const ports = '--port 0 --api-port 0 --no-mdns'
  seller = await startNode([...`${ports} ${agent}`.split(' '), '--data-dir', join(home, 'market')], {
    ...environment,
    SELLER_PRIVATE_KEY: devnet.wallets.seller.privateKey,
  })
})
afterAll(async () => {
  await Promise.all(stops.map((stop) => stop()))
  await seller?.stop()
  await devnet?.stop()
  await rm(home, { recursive: true, force: true })
})

/** A home whose node takes any free port and looks for nobody. */
async function newHome(name: string): Promise<string> {
  await mkdir(join(home, name, '.stoa'), { recursive: true, mode: 0o700 })
  await chmod(join(home, name, '.stoa'), 0o700)
  await writeFile(join(home, name, '.stoa/config.yaml'), 'p2p: { port: 0, mdns: false }\n')
  return join(home, name)
}

/** Types the marked blocks of a page, one after the other. */
async function typeOut(page: string, HOME: string, more: Record<string, string>): Promise<string> {
  const env = { ...environment, HOME, ...more }
  let said = ''
  for (const { language, mark, code } of blocksOf(page)) {
    if (language !== 'sh') continue
    if (mark === 'node') {
      const child = spawn('bash', ['-c', `exec ${code}`], { env, stdio: ['ignore', 'pipe', 'inherit'] })
      const gone = once(child, 'close')
      stops.push(async () => {
        child.kill('SIGTERM')
        await gone
      })
      for await (const part of child.stdout) if (String(part).includes('Ctrl-C stops the node')) break
      continue
    }
    let script = code
    if (script.includes('<id>')) script = script.replaceAll('<id>', seller.ready.agents[0]!.id)
    if (script.includes('127.0.0.1:8424')) {
      const { api_url } = JSON.parse(await readFile(join(HOME, '.stoa/node.json'), 'utf8')) as { api_url: string }
      script = script.replaceAll('http://127.0.0.1:8424', api_url)
    }
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { env }).catch(
      (error: Error & { stderr?: string }) => {
        throw new Error(`${page}: ${script}\n${error.stderr}`)
      },
    )
    said += stdout
  }
  return said
}

test.concurrent('the seller’s quick start works as it stands', async () => {
  const said = await typeOut('quickstart-seller.md', await newHome('seller'), {})
  expect(said).toMatch(/Summarizer .*on sale/)
})

test.concurrent('the buyer’s quick start works as it stands, and what it buys is settled on the chain', async () => {
  const before = await devnet.chain.balanceOf(devnet.wallets.buyer.address)
  const said = await typeOut('quickstart-buyer.md', await newHome('buyer'), {
    BOOTSTRAP_PEERS: seller.ready.addresses[0]!,
    BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey,
  })
  expect(said).toContain('Summarizer')
  // One call, one order, two steps.
  const paid = async () => before - (await devnet.chain.balanceOf(devnet.wallets.buyer.address))
  await until(async () => (await paid()) === 40_000n)
})

test.concurrent('the programs of the developer’s quick start run as they stand', async () => {
  const dir = await newHome('developer')
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  const stoa = JSON.stringify(new URL('../src/index.ts', import.meta.url).href)
  const program = async (mark: string) => {
    const path = join(dir, `${mark}.ts`)
    await writeFile(path, codeOf('quickstart-developer.md', mark).replace("'stoa'", stoa))
    return path
  }
  const env = { ...environment, HOME: dir, NO_COLOR: '1' }
  // What every data directory of this test has: any free port.
  for (const name of ['seller', 'buyer']) {
    await mkdir(join(dir, name), { mode: 0o700 })
    await writeFile(join(dir, name, 'config.yaml'), 'p2p: { port: 0, mdns: false }\n')
  }
  const options = { cwd: dir, env: { ...env, SELLER_PRIVATE_KEY: generatePrivateKey() } }
  const selling = spawn(process.execPath, [await program('seller')], {
    ...options,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = once(selling, 'close')
  const [address] = (await once(selling.stdout.setEncoding('utf8'), 'data')) as [string]
  const bought = await run(process.execPath, [await program('buyer'), address.trim()], {
    cwd: dir,
    env: { ...env, BUYER_PRIVATE_KEY: key },
  })
  expect(bought.stdout).toBe('HELLO 0.01\ncompleted IN THE BACKGROUND\n')
  selling.kill('SIGINT')
  expect(await gone).toEqual([0, null])
  const worked = await run(process.execPath, [await program('workflow')], options)
  expect(worked.stdout).toContain('completed stressed is desserts!')
})

test('the Python buyer of the developer’s quick start buys once over a connection that breaks, and names errors', async ({
  skip,
}) => {
  if (!(await hasPython())) return skip('there is no python3')
  const key = generatePrivateKey()
  await devnet.fund(privateKeyToAccount(key).address, 1_000_000n)
  const node = await startNode(
    ['--port', '0', '--no-mdns', '--daily-budget', '0.015', '--data-dir', join(await newHome('python'), 'buyer')],
    { ...environment, BOOTSTRAP_PEERS: seller.ready.addresses[0]!, BUYER_PRIVATE_KEY: key },
  )
  stops.push(() => node.stop())
  const { api_url } = node.ready
  await discovered(api_url, seller.ready.agents[0]!.id)
  const door = await breakingDoor(api_url, 'POST /agents/', 'event: result')
  stops.push(door.stop)
  const program = join(home, 'buyer.py')
  await writeFile(program, codeOf('quickstart-developer.md', 'buyer', 'python'))
  const buy = (words: string) =>
    run('python3', [program, words, 'It says one thing.'], { env: { ...environment, STOA_API_URL: door.url } })
  const bought = await buy('summarizer')
  expect(door.broken()).toBe(1)
  expect(bought.stdout).toBe('It says one thing.\n')
  expect(bought.stderr).toMatch(/^Summarizer costs 0\.01 USDC\n[\s\S]*asking again\n[\s\S]*(held|paid): 0\.01 USDC\n$/)
  expect(await ask<{ status: string }[]>(api_url, '/orders?status=completed')).toHaveLength(1)
  await expect(buy('nothing-like-this')).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(/^no agent/) })
  await expect(buy('summarizer')).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('OVER_BUDGET: ') })
})

test('every error the FAQ explains is one the source throws', async () => {
  const { stdout } = await run(
    'grep',
    ['-rhoE', '[A-Z][A-Z0-9]+(_[A-Z0-9]+)+|OVERLOADED|STARTING', join(root, 'src'), '--include=*.ts'],
    {
      maxBuffer: 64 * 1024 * 1024,
    },
  )
  const known = new Set(stdout.split('\n'))
  for (const [, code] of read('faq.md').matchAll(/^### ([A-Z_]+)$/gm)) expect(known.has(code!), code).toBe(true)
})

test('every command and flag that the pages name exists', () => {
  const pages = readdirSync(docs).filter((name) => name.endsWith('.md') && name !== 'http-api.md')
  for (const page of [...pages.map((name) => `docs/${name}`), 'README.md']) {
    const text = readFileSync(join(root, page), 'utf8')
    const typed = [...text.matchAll(/`(stoa [^`]+)`|^(?:\$ )?(stoa .+)$/gm)].map(
      ([, inline, line]) => inline ?? line ?? '',
    )
    for (const words of typed) {
      const plain = words.replace(/"[^"]*"/g, '').split(/[|>;]|\s#/)[0]!
      const row = commands
        .filter(({ name }) => `${plain} `.startsWith(`stoa ${name} `))
        .sort((a, b) => b.name.length - a.name.length)[0]
      const isGroup = commands.some(({ name }) => name.startsWith(plain.slice('stoa '.length).trim()))
      expect(row !== undefined || isGroup || plain.includes('--help'), `${page}: ${words}`).toBe(true)
      const flags = Object.values(row?.options ?? {}).map(({ flags }) => /--[a-z0-9-]+/.exec(flags)![0])
      for (const [, flag] of plain.matchAll(/\s(--[a-z0-9-]+)/g)) {
        if (row !== undefined && flag !== '--help') expect(flags, `${page}: ${words}`).toContain(flag)
      }
    }
  }
})
