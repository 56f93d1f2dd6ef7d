import { describe, expect, test } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { cli, useDataDir } from './harness.ts'

const dataDir = useDataDir()

test.each([
  [['strat'], /^error: unknown command 'strat' \(Did you mean start\?\)$/],
  [['onboard'], /^error: there is no "stoa onboard": use stoa init$/],
  [['agent', 'serve', '--name', 'A'], /^error: there is no "stoa agent serve": use stoa start/],
  [['workflow', 'status', '--id', 'x'], /use stoa workflow show <id>$/],
  [['workflow', 'cancel', '--id', 'x'], /^error: unknown option '--id': give the id without a flag$/],
  [['start', '--announce-interval=30s'], /^error: unknown option '--announce-interval': the node announces listings/],
  [['start', '--openai-api-key=sk-secret'], /^error: unknown option '--openai-api-key': keys come from files: [^=]*$/],
  [['start', '--provider', 'openai'], /^error: unknown option '--provider': write the provider before the model/],
  [
    ['agent', 'discover', '--on-chain'],
    /^error: unknown option '--on-chain': use stoa agent register-onchain to mint an identity/,
  ],
  [['agent', 'discver'], /^error: unknown command 'discver' \(Did you mean discover\?\)$/],
  [['start', '--prot', '4001'], /^error: unknown option '--prot' \(Did you mean --port\?\)$/],
  [['start', '--port'], /^error: option '-p, --port <port>' argument missing \(see: stoa start --help\)$/],
  [['buy', 'foo', '--task', 'x'], /^error: "foo" is not a URL such as https:/],
  [['start', 'now'], /^error: too many arguments for 'start'.* \(see: stoa start --help\)$/],
  [['start', '--port', '65536'], /^error: --port: "65536" is not valid: expected a port, 0 to 65535/],
  [['start', '--api-port', 'x'], /^error: --api-port: "x" is not valid: expected a port/],
  [['start', '--network', 'base'], /^error: --network: "base" is not valid: expected one of eip155:84532/],
  [['start', '--bootstrap', '/ip4/1.2.3.4/tcp/4001'], /^error: --bootstrap: .* that ends in the peer id/],
  [['start', '--max-price', '1.0000001'], /^error: --max-price: "1.0000001" is not valid: expected an amount in USDC/],
  [['start', '--daily-budget=-1'], /^error: --daily-budget: "-1" is not valid/],
  [['start', '--facilitator-url', 'x402.org'], /^error: --facilitator-url: "x402.org" is not valid: expected an http/],
  [['start', '--rpc-url', 'wss://host/KEY'], /^error: --rpc-url: the value is not valid: expected an http/],
  [['start', '--log-level', 'loud'], /^error: --log-level: "loud" is not valid: expected one of debug, info/],
  [['start', '--name', 'A'], /^error: --description is missing: an agent needs --name, --description and --price/],
  [['start', '--price', '1'], /^error: --name is missing/],
  [['start', '--name', '', '--description', 'd', '--price', '1'], /^error: --name: is empty$/],
  [
    ['start', '--name', 'A', '--description', 'd', '--price', '1', '--model', 'gpt/4'],
    /^error: --model: model "gpt\/4" is not understood: write openai\/4$/,
  ],
  [['agent', 'execute', '--task', 'x'], /^error: --agent-id is missing: `stoa agent discover` lists the agents$/],
  [['agent', 'execute', '--agent-id', 'x'], /^error: the task is missing: give it with --task <text>/],
  [['agent', 'execute', '--agent-id', 'x', '--task', 'a', '--input', 'b'], /^error: more than one task/],
  [['agent', 'execute', '--agent-id', 'x', '--task', ' '], /^error: the task is empty$/],
  [
    ['agent', 'execute', '--agent-id', 'x', 'task'],
    /^error: stoa agent execute: "task" is not valid: expected - \(pass the task with --task\)$/,
  ],
  [['agent', 'execute', '--agent-id', 'x', '--task', 'a', '--timeout', '0'], /^error: --timeout: "0" is not valid/],
  [['wallet', 'adress'], /^error: stoa wallet: "adress" is not valid: expected address or balance$/],
] as const)('%j ends with one clear line and exit 2', async (argv, line) => {
  const run = await cli(argv, { dataDir: dataDir() })
  expect(run.stderr.trimEnd()).toMatch(line)
  expect(run.stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(run).toMatchObject({ code: 2, stdout: '' })
})

test('a bad variable is named, with exit 2; secrets are not shown (T21)', async () => {
  const environment = { NODE_API_PORT: 'x', ETHEREUM_PRIVATE_KEY: 'hunter2hunter2' }
  const run = await cli(['start'], { dataDir: dataDir(), environment })
  expect(run.code).toBe(2)
  expect(run.stderr).toMatch(/^error: ETHEREUM_PRIVATE_KEY: the value is not valid: .*\nerror: NODE_API_PORT: "x" is/)
  expect(run.stderr).not.toContain('hunter2')
})

test('with --json an error is one JSON line on standard error', async () => {
  for (const argv of [
    ['start', '--json', '--port', 'x'],
    ['start', '--json', '--prot', 'x'],
    ['status', '--json'],
  ]) {
    const run = await cli(argv, { dataDir: dataDir() })
    expect(run.stdout).toBe('')
    expect(JSON.parse(run.stderr)).toEqual({ error: { code: expect.any(String), message: expect.any(String) } })
  }
})

test('--version prints the version and reads no environment', async () => {
  const run = await cli(['--version'], { environment: { NODE_API_PORT: 'x' } })
  expect(run).toEqual({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/), stderr: '' })
})

test('no command prints the help on standard error, with exit status 2', async () => {
  expect(await cli([])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Usage: stoa') })
  expect(await cli(['agent'])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('config add') })
})

test('--help lists every command', async () => {
  const { code, stdout } = await cli(['--help'])
  expect(code).toBe(0)
  for (const { name } of commands) expect(stdout).toMatch(new RegExp(`^ {2}${name} {2,}\\S`, 'm'))
})

describe.each(commands.map(({ name }) => name))('stoa %s --help', (name) => {
  const row = commands.find((command) => command.name === name)!
  test('has examples whose flags exist, and --data-dir and --json', async () => {
    const { code, stdout } = await cli([...name.split(' '), '--help'])
    expect(code).toBe(0)
    expect(stdout).toContain('Examples:')
    expect(stdout).toContain('--data-dir <path>')
    expect(stdout).toContain('--json')
    const known = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z0-9-]+)/gm)].map((match) => match[1])
    expect(row.examples.length).toBeGreaterThan(0)
    for (const example of row.examples) {
      expect(example).toMatch(new RegExp(`^stoa ${name}\\b`))
      const flags = [
        ...example
          .replace(/"[^"]*"/g, '')
          .split('|')[0]!
          .matchAll(/ (--[a-z0-9-]+)/g),
      ].map((match) => match[1])
      for (const flag of flags) expect(known).toContain(flag)
    }
  })
})

test('stoa start has the flags of the specification', async () => {
  const { stdout } = await cli(['start', '--help'])
  const flags =
    '--name --description --price --model --port --bootstrap --api-host --api-port --data-dir --network --rpc-url --facilitator-url --max-price --daily-budget --no-mdns --settle-first --announce --node-name --relay-via --relay --upnp --public-dht --no-public-dht --log-level --insecure-open-api --public-port --public-host --public-listener-url --public-tls-cert --public-tls-key --public-trusted-proxy'
  for (const flag of flags.split(' ')) expect(stdout).toMatch(new RegExp(`^ {2}(-[a-z], )?${flag}\\b`, 'm'))
})

test('short flags match the original node, and are unique within a command', async () => {
  for (const { name, options } of commands) {
    const short = Object.values(options).flatMap(({ flags }) => /^-([a-zA-Z]),/.exec(flags)?.[1] ?? [])
    expect([name, new Set(short).size]).toEqual([name, short.length])
  }
  const { stdout } = await cli(['start', '--help'])
  for (const flag of ['-n, --name', '-d, --description', '-r, --price', '-p, --port']) expect(stdout).toContain(flag)
  expect((await cli(['agent', 'register', '--help'])).stdout).toContain('-p, --price')
  expect((await cli(['agent', 'execute', '--help'])).stdout).toContain('-t, --task')
})

test('help breaks lines between words, also on a narrow terminal', async () => {
  const { stdout } = await cli(['order', 'create', '--help'], { tty: true, columns: 60 })
  const help = stdout.slice(0, stdout.indexOf('Examples:'))
  expect(help.split('\n').filter((line) => line.length > 60)).toEqual([])
})

test('no option answers nonsense with the text of the validator', () => {
  const answers = commands.flatMap(({ name, options }) =>
    Object.values(options).flatMap(({ flags, schema, many }) => {
      const message = schema?.safeParse(many ? ['@@ x'] : '@@ x').error?.issues[0]?.message
      return message === undefined ? [] : [`${name} ${flags}: ${message}`]
    }),
  )
  expect(answers.length).toBeGreaterThan(20)
  expect(answers.filter((answer) => /: (Invalid|Too)/.test(answer))).toEqual([])
})
