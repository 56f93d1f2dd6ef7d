import { expect, test } from 'vitest'
import { notFound } from '../../src/cli/commands/agent-execute.ts'
import type { RemoteNode } from '../../src/cli/parts.ts'
import type { Config } from '../../src/config/config.ts'
import { ApiError } from '../../src/http/client/api-error.ts'
import { CodedError } from '../../src/lib/errors.ts'
import { agentId, cli, fakeNode, listing, result, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const execute = (...more: string[]) => ['agent', 'execute', '--agent-id', agentId, ...more]
const never = () => new Promise<never>(() => {})

test('a task goes through the running node; standard output has only the result', async () => {
  const { seen, parts } = await runningNode(dataDir())
  for (const task of [['--task', 'a task'], ['--input', 'a task'], ['-'], ['--task', '-']]) {
    const run = await cli(execute(...task, '--max-price', '0.02'), { dataDir: dataDir(), parts, stdin: 'a task' })
    expect(run).toMatchObject({ code: 0, stdout: 'the result\n' })
    expect(run.stderr).toContain('free · 1.2 s')
    expect(seen.executed.at(-1)).toMatchObject({ agentId, input: 'a task', maxPriceAtomic: 20_000n })
  }
})

test('--channel and --no-channel say what is wanted of payment channels, and nothing else does', async () => {
  const { seen, parts } = await runningNode(dataDir())
  for (const flags of [['--channel'], ['--no-channel'], []]) {
    await cli(execute('--task', 'x', ...flags), { dataDir: dataDir(), parts })
  }
  expect(seen.executed.map((call) => (call as { channel?: string }).channel)).toEqual(['always', 'never', undefined])
})

test('D46: --await-settlement asks the running node for the transaction, and nothing else does', async () => {
  const { seen, parts } = await runningNode(dataDir())
  await cli(execute('--task', 'x', '--await-settlement'), { dataDir: dataDir(), parts })
  await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
  expect(seen.executed[0]).toMatchObject({ awaitsSettlement: true })
  expect(seen.executed[1]).not.toHaveProperty('awaitsSettlement')
})

test('with --json standard output has the whole result, and standard error is empty', async () => {
  const payment = {
    payment_id: '0x1',
    network: 'eip155:84532',
    asset: '0x2',
    amount: '0.01',
    amount_atomic: '10000',
    payer: '0x3',
    pay_to: '0x4',
    tx_hash: '0x5',
    settlement: 'settled' as const,
  }
  const { parts } = await runningNode(dataDir(), { execute: async () => result({ payment }) })
  const json = await cli(execute('--task', 'x', '--json'), { dataDir: dataDir(), parts })
  expect(JSON.parse(json.stdout)).toEqual(result({ payment }))
  expect(json).toMatchObject({ code: 0, stderr: '' })
  const plain = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
  expect(plain.stderr).toContain('paid 0.01 USDC to 0x4, settled in transaction 0x5')
})

test.each(['claimed', 'pending'] as const)(
  'D42: a payment that is %s is held, not paid, until the chain shows the transfer',
  async (settlement) => {
    const amount = { network: 'eip155:84532', asset: '0x2', amount: '0.01', amount_atomic: '10000' }
    const payment = { payment_id: '0x1', ...amount, payer: '0x3', pay_to: '0x4', tx_hash: '0x5', settlement }
    const { parts } = await runningNode(dataDir(), { execute: async () => result({ payment }) })
    const { stderr } = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
    expect(stderr).toContain('held 0.01 USDC for 0x4, ')
    expect(stderr).not.toContain('paid')
  },
)

test('a result cannot control the terminal; a pipe gets it unchanged (T10)', async () => {
  const output = 'a\u001b]0;owned\u0007\u001b[2J\u009b1m\u202eb\tc\nd'
  const { parts } = await runningNode(dataDir(), { execute: async () => result({ output }) })
  const onTerminal = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts, tty: true })
  expect(onTerminal.stdout).toBe('a\ufffd]0;owned\ufffd\ufffd[2J\ufffd1m\ufffdb\tc\nd\n')
  const piped = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
  expect(piped.stdout).toBe(`${output}\n`)
})

test.each([
  ['UNKNOWN_AGENT', 404, 3],
  ['AMBIGUOUS_AGENT', 409, 2],
  ['TOKEN_WRONG', 401, 4],
  ['TOKEN_REQUIRED', 401, 4],
  ['OVER_PRICE', 402, 4],
  ['OVER_BUDGET', 402, 4],
  ['LISTING_MISMATCH', 402, 4],
  ['SELLER_FAILED', 502, 5],
  ['EXECUTION_FAILED', 502, 5],
  ['PAYMENT_INVALID', 502, 5],
  ['SETTLEMENT_FAILED', 502, 5],
  ['SELLER_UNREACHABLE', 502, 6],
  ['CHAIN_UNAVAILABLE', 503, 6],
  ['DEADLINE', 504, 6],
  ['INPUT_TOO_LARGE', 413, 2],
  ['INTERNAL', 500, 1],
] as const)('%s has its own exit status', async (code, httpStatus, exit) => {
  const problem = {
    type: '/docs',
    title: 't',
    status: httpStatus,
    detail: 'what to do',
    code,
    correlation_id: 'c-1',
    order_id: 'o-1',
  }
  const { parts } = await runningNode(dataDir(), { execute: () => Promise.reject(new ApiError(problem)) })
  const run = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
  expect(run).toMatchObject({ code: exit, stdout: '' })
  expect(run.stderr).toContain('error: what to do\nwhat became of it: stoa order show o-1\ncorrelation id c-1\n')
  const json = await cli(execute('--task', 'x', '--json'), { dataDir: dataDir(), parts })
  expect(JSON.parse(json.stderr)).toEqual({
    error: { code, message: 'what to do', correlation_id: 'c-1', order_id: 'o-1' },
  })
})

test('without a running node, a temporary node finds the agent, pays and stops; it sells nothing and has no API', async () => {
  let asked = 0
  const { seen, parts } = fakeNode({ listings: () => (++asked < 3 ? [] : [listing()]) })
  const run = await cli(execute('--task', 'x', '--max-price', '0.5'), { dataDir: dataDir(), parts })
  expect(run).toMatchObject({ code: 0, stdout: 'the result\n' })
  expect(seen.calls).toEqual(['start', 'stop'])
  expect(seen.registered).toEqual([])
  expect(seen.config).toMatchObject({ p2p: { port: 0 }, api: { enabled: false }, log: { level: 'warn' } })
  expect(seen.executed).toMatchObject([{ agentId, input: 'x', maxPriceAtomic: 500_000n }])
})

test('the temporary node always stops, and the first error is reported', async () => {
  for (const failing of [
    { start: () => Promise.reject(new CodedError('PORT_IN_USE', 'port is taken')) },
    { execute: () => Promise.reject(new CodedError('OVER_BUDGET', 'no budget left')) },
  ]) {
    const { seen, parts } = fakeNode(failing)
    const run = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
    expect(run.code).toBe('start' in failing ? 1 : 4)
    expect(seen.calls.at(-1)).toBe('stop')
  }
})

test('Ctrl-C ends the command with 130, even if nothing answers', async () => {
  const { parts } = await runningNode(dataDir(), {
    execute: (_, call) =>
      new Promise((_, reject) => {
        // On a loaded machine Ctrl-C may come before the request.
        if (call?.signal?.aborted) reject(call.signal.reason)
        call?.signal?.addEventListener('abort', () => reject(call.signal?.reason))
      }),
  })
  const own = fakeNode({ execute: never })
  for (const [used, dir] of [
    [parts, dataDir()],
    [own.parts, `${dataDir()}/other`],
  ] as const) {
    const stop = new AbortController()
    const running = cli(execute('--task', 'x'), { dataDir: dir, parts: used, signal: stop.signal })
    setTimeout(() => stop.abort(), 50)
    expect(await running).toMatchObject({ code: 130, stdout: '', stderr: expect.stringMatching(/interrupted\n$/) })
  }
  expect(own.seen.calls.at(-1)).toBe('stop')
})

test.each([
  ['Ctrl-C', [], 130],
  ['--timeout', ['--timeout', '1'], 6],
] as const)(
  'after %s a call whose payment is signed goes on, and the command says where',
  async (what, flags, code) => {
    const stop = new AbortController()
    const keys: unknown[] = []
    const asked = Promise.withResolvers<void>()
    const { parts } = await runningNode(dataDir(), {
      execute: (call, options) => {
        keys.push(call.idempotencyKey)
        asked.resolve()
        return new Promise((_, reject) =>
          options?.signal?.addEventListener('abort', () => reject(options.signal!.reason)),
        )
      },
      orders: async (query) => {
        keys.push(query?.idempotencyKey)
        return { items: [{ id: 'order-1', status: 'executing', payment: {} }] as never, next: undefined }
      },
    })
    const running = cli(execute('--task', 'x', ...flags), { dataDir: dataDir(), parts, signal: stop.signal })
    await asked.promise
    if (what === 'Ctrl-C') stop.abort()
    const run = await running
    expect(run).toMatchObject({ code, stdout: '' })
    expect(run.stderr).toContain('the payment is signed, so the call goes on: stoa order show order-1 --wait')
    expect(keys).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), keys[0]])
  },
)

test('after Ctrl-C a call of a temporary node whose payment is signed waits for the next node, and the command says so', async () => {
  const stop = new AbortController()
  const keys: unknown[] = []
  const { parts } = fakeNode({
    execute: ({ idempotencyKey }) => {
      keys.push(idempotencyKey)
      stop.abort()
      return never()
    },
    orders: {
      list: async (query) => {
        keys.push(query.idempotencyKey)
        return { items: [{ id: 'order-1', status: 'executing', payment: {} }] as never, next: undefined }
      },
    },
  })
  const run = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts, signal: stop.signal })
  expect(run).toMatchObject({ code: 130, stdout: '' })
  expect(run.stderr).toContain('stoa start, then stoa order show order-1 --wait')
  expect(keys).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), keys[0]])
})

test('--timeout limits the whole command, with exit status 6', async () => {
  const { parts } = fakeNode({ execute: never })
  const run = await cli(execute('--task', 'x', '--timeout', '1'), { dataDir: dataDir(), parts })
  expect(run).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('no result within 1 s: set a longer limit with --timeout'),
  })
})

test('the node file of another or a dead node is not used, because its wallet would pay', async () => {
  const { parts, seen } = await runningNode(dataDir(), {
    status: async () => ({ ...status, peer_id: '12D3KooWanother' }),
  })
  const own = fakeNode()
  const run = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts: { ...parts, ...own.parts } })
  expect(run.code).toBe(0)
  expect(seen.executed).toEqual([])
  expect(own.seen.executed).toHaveLength(1)
})

test('the API token of the environment or of api.token is sent to the running node', async () => {
  const { parts, seen } = await runningNode(dataDir())
  await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
  await cli(execute('--task', 'x'), {
    dataDir: dataDir(),
    parts,
    environment: { NODE_API_TOKEN: 'token-token-token-token' },
  })
  expect(seen.connected.map(({ token }) => token)).toEqual([undefined, 'token-token-token-token'])
})

test('a task on standard input that is too large or not text is refused before a node is asked', async () => {
  const big = await cli(execute('-'), { dataDir: dataDir(), stdin: Buffer.alloc(7 * 1024 * 1024, 97) })
  expect(big).toMatchObject({ code: 2, stderr: expect.stringContaining('the task is larger than') })
  const binary = await cli(execute('-'), { dataDir: dataDir(), stdin: Uint8Array.of(0xff, 0xfe, 0x00) })
  expect(binary).toMatchObject({ code: 2, stderr: expect.stringContaining('is not UTF-8 text') })
})

test('a terminal gets a spinner, any other output one plain line', async () => {
  const { parts } = await runningNode(dataDir())
  const terminal = await cli(execute('--task', 'x'), {
    dataDir: dataDir(),
    parts,
    tty: true,
    environment: { NO_COLOR: '1' },
  })
  expect(terminal.stderr.startsWith('\r\u001b[2K⠋ asking agent')).toBe(true)
  const plain = await cli(execute('--task', 'x'), { dataDir: dataDir(), parts })
  expect(plain.stderr).toMatch(/^asking agent abc.*\nfree ·/)
  expect(plain.stderr).not.toContain('\u001b')
})

test('--stream shows output as it comes, and at the end only what was not shown yet', async () => {
  const saying =
    (...texts: string[]): RemoteNode['executeStreamed'] =>
    async ({ onProgress }) => {
      onProgress({ type: 'status', data: { status: 'running', order_id: 'o', correlation_id: 'c' } })
      for (const text of texts) onProgress({ type: 'output', data: { text } })
      return result({ output: 'one two' })
    }
  const run = async (executeStreamed: RemoteNode['executeStreamed'], ...flags: string[]) => {
    const { parts } = await runningNode(dataDir(), { executeStreamed })
    const argv = ['agent', 'execute', '--agent-id', agentId, '--task', 'x', '--stream', ...flags]
    return cli(argv, { dataDir: dataDir(), parts })
  }
  expect((await run(saying('one ', 'two'))).stdout).toBe('one two\n')
  expect((await run(saying('one ', 'two\n'))).stdout).toBe('one two\n')
  expect((await run(saying('one '))).stdout).toBe('one two\n')
  expect(await run(saying('three'))).toMatchObject({
    stdout: 'three\none two\n',
    stderr: expect.stringContaining('the final result differs from the output above'),
  })
  const json = (await run(saying('one two'), '--json')).stdout.trim().split('\n')
  expect(json.map((line) => JSON.parse(line).type)).toEqual(['status', 'output', 'result'])
})

test('the error of an unknown agent says what was found: other agents, only peers, or nobody', () => {
  const alone = { p2p: { bootstrap: [] } } as unknown as Pick<Config, 'p2p'>
  const told = (heard: { known: number; met: number }) => notFound('Ehco', alone, heard).message
  expect(notFound('abc', alone, { known: 2, met: 1 }).message).toContain('at least 6 characters')
  expect(told({ known: 2, met: 1 })).not.toContain('characters')
  expect(told({ known: 3, met: 1 })).toBe(
    'agent Ehco was not found within 20 s among the 3 agents on the market: stoa agent discover lists the names and ids',
  )
  expect(told({ known: 0, met: 1 })).toContain('1 peer answered, but it sent no valid listing')
  expect(told({ known: 0, met: 0 })).toContain('--bootstrap <multiaddr> (stoa status of a seller shows its address')
})
