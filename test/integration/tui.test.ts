/** The text interface as its users see it: a real pseudo-terminal, real nodes, the screen read. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startDevnet } from '../../devnet/devnet.ts'
import { killNodeProcesses, startNodeProcess } from '../support/node-process.ts'
import { keys, openTerminal, type Terminal } from '../support/terminal.ts'
import { until } from '../support/until.ts'

const stoa = new URL('../../bin/stoa.js', import.meta.url).pathname
const offline = {
  NODE_LISTEN_HOST: '127.0.0.1',
  ETHEREUM_RPC_URL: 'http://127.0.0.1:9',
  FACILITATOR_URL: 'http://127.0.0.1:9',
}
let dir: string
let terminal: Terminal | undefined
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-tui-'))
})
afterEach(async () => {
  terminal?.kill()
  await terminal?.exited
  terminal = undefined
  await killNodeProcesses()
  await rm(dir, { recursive: true, force: true })
})

function open(...words: string[]): Terminal {
  terminal = openTerminal([stoa, ...words], { environment: { ...offline, NODE_DATA_DIR: join(dir, 'own') } })
  return terminal
}
const starting = ['tui', '--no-mdns', '--port', '0', '--api-port', '0']

test('discovers and buys from another node, survives every size, and ends its node at /exit', async () => {
  const seller = await startNodeProcess({
    args: ['--name', 'Echo', '--description', 'Says it again.', '--price', '0', '--model', 'builtin/echo'],
    environment: { ...offline, NODE_DATA_DIR: join(dir, 'seller') },
  })
  const screen = open(...starting, '--bootstrap', seller.ready.addresses[0]!)
  await screen.shows('1 known')
  expect(screen.screen().split('\n')).toHaveLength(24)
  screen.type('/agent disc\t echo\r')
  await screen.shows('1 agent')
  await screen.shows(/Echo {2}free/)
  // The id that was shown is what Tab offers.
  screen.type('/agent execute \t')
  await screen.shows(/› \/agent execute [a-z2-7]{32}/)
  screen.type('hello from a terminal\r')
  await screen.shows(/^hello from a terminal$/m)
  screen.type(keys.up)
  await screen.shows(/› \/agent execute [a-z2-7]{32} hello from/)

  for (const [columns, rows] of [
    [60, 14],
    [200, 60],
    [40, 10],
  ] as const) {
    screen.resize(columns, rows)
    // The panel in the first row, a rule as wide as the terminal, the line as it was.
    await screen.shows(new RegExp(`^stoa \\d[^]*\\n─{${columns}}\\n[^]*\\n› .*from a terminal`))
  }
  screen.resize(30, 8)
  await screen.shows('needs a terminal')
  screen.resize(80, 24)
  await screen.shows(/^› .*from a terminal/m)
  screen.type(keys.ctrlC)
  expect(await screen.exited).toBe(0)
  expect(await readdir(join(dir, 'own'))).not.toContain('node.json')
})

test('attaches to a node that runs, leaves it running, and shows no control sequence of an agent (T10)', async () => {
  const program = 'process.stdout.write("\\x1b[2J\\x1b]0;owned\\x07plain\\x1b[31m red")'
  await writeAgents([process.execPath, '-e', program])
  const node = await startNodeProcess({ args: [], environment: { ...offline, NODE_DATA_DIR: join(dir, 'own') } })
  const screen = open()
  await screen.shows(`(pid ${node.child.pid}); it goes on`)
  await screen.shows('● up')
  screen.type('/agent list\r')
  await screen.shows(/Hostile +free/)
  screen.type('/agent execute \tx\r')
  await screen.shows('plain')
  expect(screen.raw()).not.toContain('\u001b]0;owned')
  expect(screen.screen()).toMatch(/^stoa \d/)
  screen.type('/wallet address\r')
  await screen.shows(/^0x[0-9a-fA-F]{40}$/m)
  screen.type('/statsu\r')
  await screen.shows('Did you mean status?')
  screen.type('/exit\r')
  expect(await screen.exited).toBe(0)
  expect((await fetch(`${node.ready.api_url}/health`)).status).toBe(200)
})

test('notices that its node is gone and that it is back; SIGTERM ends it and gives the terminal back', async () => {
  const environment = { ...offline, NODE_DATA_DIR: join(dir, 'own') }
  const first = await startNodeProcess({ args: [], environment })
  const screen = open()
  await screen.shows('● up')
  first.child.kill('SIGKILL')
  await screen.shows('no node answers')
  await startNodeProcess({ args: [], environment })
  await screen.shows('● up')
  screen.kill('SIGTERM')
  expect(await screen.exited).toBe(0)
  // Back from the other screen, the cursor shown.
  expect(screen.raw()).toContain('\u001b[?1049l')
  expect(screen.raw().lastIndexOf('\u001b[?25h')).toBeGreaterThan(screen.raw().lastIndexOf('\u001b[?25l'))
})

test('says why a node could not start, and Ctrl-C stops a command before it leaves', async () => {
  const other = await startNodeProcess({ args: [], environment: { ...offline, NODE_DATA_DIR: join(dir, 'other') } })
  const { port } = new URL(other.ready.api_url)
  const screen = open('tui', '--no-mdns', '--port', '0', '--api-port', port)
  await screen.shows(/error: .*in use/s)
  await screen.shows('no node answers')
  screen.type('/agent discover --wait 60\r')
  await screen.shows('Ctrl-C stops it')
  screen.type(keys.ctrlC)
  await screen.shows('interrupted')
  await screen.shows('Ctrl-C leaves')
  screen.type(keys.ctrlC)
  expect(await screen.exited).toBe(0)
})

test('a purchase that waits is seen, approved and settled from the screen (D33)', async () => {
  const devnet = await startDevnet()
  try {
    const chain = { ...offline, ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl }
    const seller = await startNodeProcess({
      args: ['--name', 'Echo', '--description', 'Says it again.', '--price', '0.25', '--model', 'builtin/echo'],
      environment: {
        ...chain,
        NODE_DATA_DIR: join(dir, 'seller'),
        SELLER_PRIVATE_KEY: devnet.wallets.seller.privateKey,
      },
    })
    const environment = {
      ...chain,
      NODE_DATA_DIR: join(dir, 'own'),
      BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey,
    }
    const screen = openTerminal([stoa, ...starting, '--bootstrap', seller.ready.addresses[0]!], { environment })
    terminal = screen
    await screen.shows('1 known')
    await screen.shows('100 USDC')
    // What is typed while another command runs waits for it.
    screen.type('/budget --auto-approve-below 0.10\r/agent discover echo\r')
    await screen.shows(/Echo {2}0\.25 USDC/)
    screen.type('/agent execute \tpaid words\r')
    await screen.shows('1 to approve: /approve')
    screen.type('/approve\r')
    await screen.shows(/^[0-9a-f-]{36} .*0\.25 USDC/m)
    screen.type('/approve \t\r')
    await screen.shows('approved: Echo for 0.25 USDC')
    const spent = async () => 100_000_000n - (await devnet.chain.balanceOf(devnet.wallets.buyer.address))
    await until(async () => (await spent()) === 250_000n, { timeoutMs: 20_000 })
    screen.type('/order\r')
    await screen.shows('completed')
    screen.type('/exit\r')
    expect(await screen.exited).toBe(0)
  } finally {
    await devnet.stop()
  }
})

async function writeAgents(command: string[]): Promise<void> {
  await mkdir(join(dir, 'own'), { mode: 0o700 })
  const agent = { name: 'Hostile', description: 'd', price: 0, command }
  await writeFile(join(dir, 'own', 'agents.yaml'), JSON.stringify({ agents: [agent] }))
}
