/** `stoa sell` in a terminal and in scripts, with real services (T39). */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readAgentsFile } from '../../src/config/agents-yaml.ts'
import { CodedError } from '../../src/lib/errors.ts'
import { soldMcpProgram } from '../support/sold-mcp.ts'
import { useSoldServices } from '../support/sold-services.ts'
import { keys, openTerminal } from '../support/terminal.ts'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const stoa = new URL('../../bin/stoa.js', import.meta.url).pathname
const KEY = 'pet-key-123456'
const { services, serve, stopServers } = useSoldServices()

const file = () => join(dataDir(), 'agents.yaml')
const sell = (...argv: string[]) =>
  cli(['sell', ...argv], { dataDir: dataDir(), environment: { PET_KEY: KEY, PATH: process.env.PATH! } })
const agents = () => readAgentsFile(file())
const untouched = async () => expect(await readFile(file(), 'utf8').catch(() => 'none')).toBe('none')

test('tools of an MCP server become agents: found, tested, written', async () => {
  const run = await sell(
    services.mcp.url,
    '--tool',
    'forecast',
    '--tool',
    'paint',
    '--price',
    '0.01',
    '--tag',
    'weather',
    '--yes',
    '--json',
  )
  expect(run.code).toBe(0)
  expect(run.stderr).toContain('found an MCP server, weather 1.2')
  expect(JSON.parse(run.stdout)).toMatchObject({
    service: { kind: 'mcp' },
    tests: [
      { name: 'Forecast', state: 'done', task: '{"city":"Paris"}', output: 'Paris: sun for 1 days' },
      { name: 'paint', state: 'done', output: expect.stringContaining('image/png') },
    ],
    restart_needed: false,
  })
  expect(await agents()).toMatchObject([
    {
      ...{ name: 'Forecast', price: 10_000n, tags: ['weather'] },
      mcp_tool: { url: services.mcp.url, tool: 'forecast', input_schema: { required: ['city'] } },
    },
    { name: 'paint' },
  ])
})

test('T10 texts of a service reach the terminal and the listing without controls', async () => {
  const run = await sell(services.mcp.url, '--tool', 'forecast', '--price', '0', '--yes')
  expect(run.code).toBe(0)
  expect(run.stderr + run.stdout).not.toMatch(/(?!\n)[\p{Cc}\u202e]/u)
  const [{ description } = { description: '' }] = await agents()
  expect(description).toBe(
    'The weather. Known. The task is a JSON object with "city" (string); "days" (integer, optional).',
  )
})

test('a program after -- is an MCP server, and its agent starts it without a shell', async () => {
  const program = ['--', process.execPath, soldMcpProgram, '$(touch pwned)']
  const run = await sell(
    '--tool',
    'forecast',
    '--name',
    'Sky',
    '--price',
    '0',
    '--yes',
    '--sample',
    '{"city":"Rome"}',
    ...program,
  )
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('Rome: sun for 1 days') })
  expect(await agents()).toMatchObject([{ name: 'Sky', mcp_tool: { command: program.slice(1), tool: 'forecast' } }])
})

test('operations of an OpenAPI document become agents, from its URL, from JSON and from YAML', async () => {
  const flags = ['--api-key-env', 'PET_KEY', '--operation', 'getPet', '--price', '0.02', '--yes']
  const run = await sell(`${services.api.url}/openapi.json`, ...flags)
  expect(run.stderr).toContain('found an OpenAPI document, Pets 2, with 10 operations')
  expect(run.stderr).toContain(`calls go to ${services.api.url}/v1`)
  expect(run.code).toBe(0)
  expect(run.stderr + run.stdout + (await readFile(file(), 'utf8'))).not.toContain(KEY)
  const path = join(dataDir(), 'pets.yaml')
  await writeFile(path, 'openapi: 3.0.3\ninfo: {title: Cats}\npaths:\n  /cats:\n    get:\n      responses: {}\n')
  const second = await sell(
    path,
    '--server',
    `${services.api.url}/v1/`,
    ...['--api-key-env', 'PET_KEY', '--price', '0', '--yes', '--no-test'],
  )
  expect(second).toMatchObject({ code: 0, stderr: expect.stringContaining('was not tested: --no-test') })
  expect(await agents()).toMatchObject([
    {
      name: 'Get a pet',
      operation: { url: `${services.api.url}/v1/pets/{petId}`, key: { in: 'header', name: 'X-Api-Key' } },
    },
    { name: 'GET /cats', operation: { url: `${services.api.url}/v1/cats` } },
  ])
})

test('what may change something runs only if the seller says so', async () => {
  const before = services.api.asked.length
  const flags = [
    '--api-key-env',
    'PET_KEY',
    '--operation',
    'addPet',
    '--operation',
    'deletePet',
    '--price',
    '0',
    '--yes',
  ]
  const run = await sell(`${services.api.url}/openapi.json`, ...flags, '--json')
  expect(JSON.parse(run.stdout).tests).toMatchObject([{ state: 'skipped' }, { state: 'skipped' }])
  expect(services.api.asked.length).toBe(before)
  const again = await sell(`${services.api.url}/openapi.json`, ...flags, '--name', 'B', '--test-changes')
  expect(again.code).toBe(0)
  expect(services.api.asked.slice(before).map(({ method }) => method)).toEqual(['POST', 'DELETE'])
})

test('a test run that fails writes nothing, and says why', async () => {
  const run = await sell(services.mcp.url, '--tool', 'forecast', '--tool', 'fail', '--price', '0', '--yes')
  expect(run).toMatchObject({ code: 1, stdout: '' })
  expect(run.stderr).toMatch(/fail failed with \{\}: the tool behind this agent gave no result/)
  expect(run.stderr).toMatch(/1 of 2 test runs failed: nothing was written/)
  await untouched()
})

test('a second time, the agent is there already: nothing is changed, and comments stay', async () => {
  const flags = [services.mcp.url, '--tool', 'forecast', '--yes']
  await writeFile(
    file(),
    '# mine\nagents:\n  - name: Echo # keep\n    description: d\n    price: 0.10\n    model: builtin/echo\n',
  )
  expect((await sell(...flags, '--price', '0.01')).code).toBe(0)
  const written = await readFile(file(), 'utf8')
  expect(written).toMatch(/^# mine\nagents:\n {2}- name: Echo # keep\n[\s\S]*price: 0\.10\n/)
  const calls = services.mcp.calls.length
  const again = await sell(...flags, '--price', '5')
  expect(again).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/already has an agent "Forecast", which is left as it is/),
  })
  expect(await readFile(file(), 'utf8')).toBe(written)
  expect(services.mcp.calls.length).toBe(calls)
})

test('--dry-run prints entries that agents.yaml takes, runs nothing and writes nothing', async () => {
  const calls = services.mcp.calls.length
  const run = await sell(services.mcp.url, '--all', '--price', '0.01', '--dry-run')
  expect(run.code).toBe(0)
  await untouched()
  expect(services.mcp.calls.length).toBe(calls)
  await writeFile(file(), run.stdout)
  expect(await agents()).toHaveLength(7)
})

test('a running node of an earlier version has to be restarted, and without a node the agents start with it', async () => {
  const flags = [services.mcp.url, '--tool', 'forecast', '--price', '0', '--yes']
  expect((await sell(...flags)).stderr).toContain('the change starts with the node')
  const reloadAgents = async () => {
    throw new CodedError('METHOD_NOT_ALLOWED', 'this path answers GET')
  }
  const { parts } = await runningNode(dataDir(), { reloadAgents })
  const run = await cli(['sell', ...flags, '--name', 'Second'], { dataDir: dataDir(), parts })
  expect(run.stderr).toContain('Restart it to apply the change')
})

test.each([
  [['--yes'], /what to sell is missing/],
  [['nothing-there', '--yes'], /is no URL and no file/],
  [['ftp://files.example/', '--yes'], /not an http\(s\) URL/],
  [['https://me:secret-pw@tools.example/mcp', '--yes'], /has a user name or a password: store the key/],
  [['https://tools.example/mcp?api_key=secret-pw', '--yes'], /seems to have a key in its query \(api_key\)/],
  [['https://tools.example/mcp', '--api-key-env', 'sk-secret-pw', '--yes'], /not the NAME of a variable/],
  [['https://tools.example/mcp', '--api-key-env', 'NODE_API_TOKEN', '--yes'], /belongs to this node/],
  [['https://tools.example/mcp', '--api-key-env', 'UNSET_KEY', '--yes'], /UNSET_KEY is not set/],
  [['https://tools.example/mcp'], /there is no terminal to ask on: add --yes/],
  [['http://169.254.169.254/latest/meta-data', '--yes'], /leads to an address that only this machine may ask/],
  [['https://a.example', '--yes', '--', 'npx'], /not both/],
])('T21 %j ends with one clear line, and shows no secret', async (argv, line) => {
  const run = await sell(...argv)
  expect(run.stderr).toMatch(line)
  expect(run.stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(run.stderr).not.toContain('secret-pw')
  expect([1, 2]).toContain(run.code)
  await untouched()
})

test.each([
  [['--yes', '--price', '0'], /choose with --tool, or give --all: there are forecast, book/],
  [['--yes', '--price', '0', '--tool', 'none'], /--tool: there is no "none": there are/],
  [['--yes', '--price', '0', '--operation', 'x'], /--operation: this is an MCP server.*use --tool/],
  [['--yes', '--tool', 'forecast'], /--price is missing/],
  [['--yes', '--price', '0', '--all', '--tool', 'forecast'], /either --all or --tool/],
  [['--yes', '--price', '0', '--all', '--description', 'd'], /several agents cannot have one description/],
  [['--yes', '--price', '0', '--all', '--sample', '{}'], /write <tool>=<task>/],
  [['--yes', '--price', '0', '--as', 'openapi'], /--as openapi: HTTP 40/],
])('flags that do not fit are named: %j', async (argv, line) => {
  const run = await sell(services.mcp.url, ...argv)
  expect(run.stderr).toMatch(line)
  expect(run.code).toBe(2)
  await untouched()
})

test('nobody there is told as such', async () => {
  const url = await serve(() => {})
  stopServers()
  expect(await sell(url, '--price', '0', '--yes')).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('ECONNREFUSED'),
  })
})

test('a server with the API of OpenAI sells its models, each with the address of its server', async () => {
  const url = await serve(async (request, response) => {
    if (request.url === '/v1/models') return void response.end('{"data":[{"id":"small"},{"id":"org/large"}]}')
    if (request.url !== '/v1/chat/completions') return void response.writeHead(404).end()
    const choices = [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }]
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage }))
  })
  const run = await sell(url, '--model', 'org/large', '--name', 'Large', '--price', '0.001', '--yes')
  expect(run.stderr).toContain('found a server with the API of OpenAI and 2 models')
  expect(run).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/answered Answer with the word yes\. in \d+ ms:\nyes/),
  })
  expect(await agents()).toMatchObject([
    { name: 'Large', model: 'openai-compatible/org/large', model_url: `${url}/v1` },
  ])
})

test('any other address is an HTTP agent, after all else was looked for', async () => {
  const url = await serve(async (request, response) => {
    if (request.method !== 'POST' || request.headers['content-type']?.startsWith('text/plain') !== true)
      return void response.writeHead(405).end()
    response.end('done')
  })
  const flags = ['--name', 'Plain', '--description', 'Does it.', '--price', '0', '--yes']
  const run = await sell(url, ...flags, '--sample', 'a task', '--test-changes')
  expect(run.stderr).toMatch(/found an HTTP service[\s\S]*no A2A agent \(HTTP 405\), no OpenAPI document/)
  expect(run.stderr).toContain('Plain answered a task')
  expect(run.code).toBe(0)
  expect(await agents()).toMatchObject([{ name: 'Plain', http: `${url}/` }])
})

test('T12 a redirect is not followed: its address is shown', async () => {
  const url = await serve((_request, response) =>
    response.writeHead(302, { location: 'http://169.254.169.254/x' }).end(),
  )
  const run = await sell(url, '--name', 'P', '--description', 'd', '--price', '0', '--yes')
  expect(run).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('it leads to http://169.254.169.254/x: name that address'),
  })
})

test.each([
  ['http://169.254.169.254/latest', 'another host'],
  ['http://127.0.0.1:8424/', 'another host'],
  ['https://evil.example/', 'another host'],
])('T12 a document that sends calls to %s needs the word of the seller', async (server) => {
  const document = { openapi: '3.0.0', info: {}, servers: [{ url: server }], paths: { '/a': { get: {} } } }
  const url = await serve((request, response) =>
    request.url === '/openapi.json' ? response.end(JSON.stringify(document)) : response.writeHead(404).end(),
  )
  const run = await sell(`${url}/openapi.json`, '--price', '0', '--yes')
  expect(run).toMatchObject({ code: 2, stderr: expect.stringContaining('another host than its own: give --server') })
  await untouched()
})

test('in a terminal it asks for tools, name, text, price and each test run that may change something', async () => {
  const environment = { NODE_DATA_DIR: dataDir() }
  const terminal = openTerminal([stoa, 'sell', services.mcp.url], { environment, rows: 60, columns: 120 })
  const answer = async (question: string, typed: string) => {
    await terminal.shows(question)
    terminal.type(typed)
  }
  await answer('Which tools do you sell?', `${keys.down} ${keys.enter}`)
  await answer('Name of the agent', `Booker${keys.enter}`)
  await answer('What the agent does', keys.enter)
  await answer('Price of one task', `0.05${keys.enter}`)
  await answer('A task to test book', `{"city":"Oslo"}${keys.enter}`)
  await answer('may change something. Run it', 'y')
  await terminal.shows('booked Oslo')
  await answer('Write the agent into agents.yaml?', 'y')
  expect(await terminal.exited).toBe(0)
  expect(await agents()).toMatchObject([{ name: 'Booker', price: 50_000n, mcp_tool: { tool: 'book' } }])
})
