/** The text interface as its users see it: a real pseudo-terminal, real nodes, the screen read. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'vitest'
import { startDevnet } from '../../devnet/devnet.ts'
import { engineEnvironment } from '../support/ledger-engine.ts'
import { startNodeProcess } from '../support/node-process.ts'
import { keys, openTerminal, type Terminal } from '../support/terminal.ts'
import { until } from '../support/until.ts'

const stoa = new URL('../../bin/stoa.js', import.meta.url).pathname
const offline = {
  NODE_LISTEN_HOST: '127.0.0.1',
  ETHEREUM_RPC_URL: 'http://127.0.0.1:9',
  FACILITATOR_URL: 'http://127.0.0.1:9',
}

/** A directory, nodes and terminals of one test. */
async function bench(onTestFinished: TestContext['onTestFinished']) {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-tui-'))
  const ends: (() => Promise<unknown>)[] = []
  onTestFinished(async () => {
    await Promise.all(ends.map((end) => end()))
    await rm(dir, { recursive: true, force: true })
  })
  return {
    own: join(dir, 'own'),
    async startNode(name: string, args: readonly string[] = [], environment: Record<string, string> = {}) {
      const node = await startNodeProcess({
        args,
        environment: { ...offline, ...environment, NODE_DATA_DIR: join(dir, name) },
      })
      ends.push(() => node.stop())
      return node
    },
    async open(words: readonly string[], environment: Record<string, string> = {}): Promise<Terminal> {
      const own = join(dir, 'own')
      const terminal = openTerminal([stoa, ...words], {
        environment: { ...offline, ...environment, NODE_DATA_DIR: own, ...(await engineEnvironment(own)) },
      })
      ends.push(() => {
        terminal.kill()
        return terminal.exited
      })
      return terminal
    },
  }
}
const echo = ['--name', 'Echo', '--description', 'Says it again.', '--model', 'builtin/echo']
const starting = ['tui', '--no-mdns', '--port', '0', '--api-port', '0']

test.concurrent('discovers and buys from another node, survives every size, and ends its node at /exit', async ({
  onTestFinished,
  expect,
}) => {
  const { own, startNode, open } = await bench(onTestFinished)
  const seller = await startNode('seller', [...echo, '--price', '0'])
  const screen = await open([...starting, '--bootstrap', seller.ready.addresses[0]!])
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
  expect(await readdir(own)).not.toContain('node.json')
})

test.concurrent('attaches to a node that runs, leaves it running, and shows no control sequence of an agent (T10)', async ({
  onTestFinished,
  expect,
}) => {
  const { own, startNode, open } = await bench(onTestFinished)
  const program = 'process.stdout.write("\\x1b[2J\\x1b]0;owned\\x07plain\\x1b[31m red")'
  await writeAgents(own, [process.execPath, '-e', program])
  const node = await startNode('own')
  const screen = await open([])
  await screen.shows(`(pid ${node.child.pid}); it keeps running`)
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

test.concurrent('notices that its node is gone and that it is back; SIGTERM ends it and gives the terminal back', async ({
  onTestFinished,
  expect,
}) => {
  const { startNode, open } = await bench(onTestFinished)
  const first = await startNode('own')
  const screen = await open([])
  await screen.shows('● up')
  first.child.kill('SIGKILL')
  await screen.shows('the node does not answer')
  await first.exited
  await startNode('own')
  await screen.shows('● up')
  screen.kill('SIGTERM')
  expect(await screen.exited).toBe(0)
  // Back from the other screen, the cursor shown.
  expect(screen.raw()).toContain('\u001b[?1049l')
  expect(screen.raw().lastIndexOf('\u001b[?25h')).toBeGreaterThan(screen.raw().lastIndexOf('\u001b[?25l'))
})

test.concurrent('says why a node could not start, and Ctrl-C stops a command before it leaves', async ({
  onTestFinished,
  expect,
}) => {
  const { startNode, open } = await bench(onTestFinished)
  const other = await startNode('other')
  const { port } = new URL(other.ready.api_url)
  const screen = await open(['tui', '--no-mdns', '--port', '0', '--api-port', port])
  await screen.shows(/error: .*in use/s)
  await screen.shows('● the node did not start')
  screen.type('/agent discover --wait 60\r')
  await screen.shows('Ctrl-C cancels')
  screen.type(keys.ctrlC)
  await screen.shows('interrupted')
  await screen.shows('Ctrl-C leaves')
  screen.type(keys.ctrlC)
  expect(await screen.exited).toBe(0)
})

test.concurrent('a purchase that waits is seen, approved and settled from the screen (D33)', async ({
  onTestFinished,
  expect,
}) => {
  const { startNode, open } = await bench(onTestFinished)
  const devnet = await startDevnet()
  try {
    const chain = { ETHEREUM_RPC_URL: devnet.rpcUrl, FACILITATOR_URL: devnet.facilitatorUrl }
    const selling = { ...chain, SELLER_PRIVATE_KEY: devnet.wallets.seller.privateKey }
    const seller = await startNode('seller', [...echo, '--price', '0.25'], selling)
    const buying = { ...chain, BUYER_PRIVATE_KEY: devnet.wallets.buyer.privateKey }
    const screen = await open([...starting, '--bootstrap', seller.ready.addresses[0]!], buying)
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
    await screen.shows('approved Echo for 0.25 USDC')
    const spent = async () => 100_000_000n - (await devnet.chain.balanceOf(devnet.wallets.buyer.address))
    await until(async () => (await spent()) === 250_000n)
    const [, order] = /order show\s+([0-9a-f-]{36})/.exec(screen.screen())!
    screen.type(`/order show ${order} --wait\r`)
    await screen.shows(/^paid words$/m)
    screen.type('/exit\r')
    expect(await screen.exited).toBe(0)
  } finally {
    await devnet.stop()
  }
})

async function writeAgents(dataDir: string, command: string[]): Promise<void> {
  await mkdir(dataDir, { mode: 0o700 })
  const agent = { name: 'Hostile', description: 'd', price: 0, command }
  await writeFile(join(dataDir, 'agents.yaml'), JSON.stringify({ agents: [agent] }))
}
