/** First run: `stoa init` by flags and by questions, in a real terminal. */
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keys, openTerminal } from '../support/terminal.ts'
import { cli, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const stoa = new URL('../../bin/stoa.js', import.meta.url).pathname
const key = `0x${'1'.repeat(64)}`
const ownerOnly = async (name: string) => ((await stat(join(dataDir(), name))).mode & 0o777).toString(8)
const init = (...argv: string[]) => cli(['init', '--yes', ...argv], { dataDir: dataDir() })

test('flags set wallet, network, model key and agent; keys are stored with mode 0600 and never shown (T21)', async () => {
  const modelKey = 'sk-proj-abcdefgh12345678'
  const argv = '--json --network eip155:84532 --name S --description d --price 0.01 --model openai/x --provider openai'
  const run = await cli(['init', '--yes', ...argv.split(' '), '--model-key-file', '-'], {
    dataDir: dataDir(),
    stdin: `${modelKey}\n`,
  })
  expect(run).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(run.stdout)).toMatchObject({ wallet: { deed: 'made' }, keys_stored: ['OPENAI_API_KEY'], agents: 1 })
  expect(run.stdout + run.stderr).not.toContain(modelKey)
  expect(await readFile(join(dataDir(), 'agents.yaml'), 'utf8')).not.toContain(modelKey)
  expect(await readFile(join(dataDir(), 'keys.env'), 'utf8')).toContain(`OPENAI_API_KEY=${modelKey}`)
  expect([await ownerOnly('keys.env'), await ownerOnly('wallet.key')]).toEqual(['600', '600'])
  // The node has the key from there: without it the agent would be told of as idle.
  expect(JSON.parse(run.stdout).notice).toBeNull()
})

test('--import imports agents, keys and settings of the original node, and asks no questions', async () => {
  const theirs = join(dataDir(), 'theirs')
  await mkdir(theirs)
  const agent = '{name: weather, description: The weather, price: 0.001, model: gemini-2.5-flash, api_key: g-secret-1}'
  await writeFile(join(theirs, 'agents.yaml'), `agents:\n  - ${agent}\n`)
  await writeFile(join(theirs, 'config.yaml'), 'rpc_url: https://rpc.example/v1\np2p_port: 4002\n')
  const run = await cli(['init', '--json', '--import', theirs], { dataDir: dataDir() })
  expect(run).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(run.stdout)).toMatchObject({ keys_stored: ['GOOGLE_API_KEY'], agents: 1, notices: [] })
  expect(run.stdout).not.toContain('g-secret-1')
  const [agents, config] = ['agents.yaml', 'config.yaml'].map((name) => readFile(join(dataDir(), name), 'utf8'))
  expect(await agents).toMatch(/name: weather[\s\S]*price: 0\.001[\s\S]*model: google\/gemini-2\.5-flash/)
  expect(await agents).not.toContain('g-secret-1')
  expect(await config).toMatch(/rpc_url: https:\/\/rpc\.example\/v1[\s\S]*p2p:\s+port: 4002/)
  // Its example file: two agents, and no key in it.
  const example = join(dataDir(), 'example.yaml')
  const two = ['weather-bot', 'code-helper'].map(
    (name) => `{name: ${name}, description: d, price: 0.001, model: gemini-2.5-flash}`,
  )
  await writeFile(example, `agents: [${two.join(', ')}]`)
  const named = JSON.parse(
    (await cli(['init', '--json', '--import', example, '--data-dir', join(dataDir(), 'other')])).stdout,
  )
  expect(named.notices.map((notice: string) => notice.split(':')[0])).toEqual(['weather-bot', 'code-helper'])
  const nothing = await cli(['init', '--import', join(theirs, 'no')], { dataDir: dataDir() })
  expect(nothing).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('there is no agents.yaml and no config.yaml'),
  })
})

test('a data directory that is a file is named as such, and not one of the files in it', async () => {
  const file = join(dataDir(), 'file')
  await writeFile(file, '')
  for (const path of [file, join(file, 'under')]) {
    const run = await cli(['init', '--yes', '--data-dir', path])
    expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/data directory .* is, or lies under, a file/) })
  }
})

test('is idempotent, and never overwrites a wallet', async () => {
  await writeFile(join(dataDir(), 'k'), key)
  expect(JSON.parse((await init('--json')).stdout)).toMatchObject({ wallet: { deed: 'made' } })
  const wallet = await readFile(join(dataDir(), 'wallet.key'), 'utf8')
  expect(JSON.parse((await init('--json')).stdout)).toMatchObject({ wallet: { deed: 'kept' } })
  for (const argv of [
    ['--wallet', 'import', '--wallet-key-file', join(dataDir(), 'k')],
    ['--wallet', 'make'],
  ]) {
    const refused = await init(...argv)
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('never overwritten') })
    expect(refused.stderr).not.toContain('1111')
  }
  expect(await readFile(join(dataDir(), 'wallet.key'), 'utf8')).toBe(wallet)
})

test('keeps the comments of config.yaml', async () => {
  await writeFile(join(dataDir(), 'config.yaml'), '# mine\np2p:\n  port: 4010 # chosen\n')
  await init('--network', 'eip155:8453', '--facilitator-url', 'https://f.example/x')
  expect(await readFile(join(dataDir(), 'config.yaml'), 'utf8')).toBe(
    '# mine\np2p:\n  port: 4010 # chosen\nnetwork: eip155:8453\nfacilitator_url: https://f.example/x\n',
  )
})

test.each([
  [['--wallet', 'import'], /--wallet import and --wallet-key-file need each other/],
  [['--wallet', 'keep'], /no wallet to keep/],
  [['--model-key-file', 'x'], /needs --provider/],
  [['--provider', 'openai', '--model-key-file', '/nowhere'], /the file "\/nowhere" does not exist/],
  [['--name', 'A'], /--description is missing/],
])('%j is refused with one line', async (argv, line) => {
  expect(await init(...argv)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})

test('keys.env accepts no key that moves money, and its lines are never shown', async () => {
  await writeFile(join(dataDir(), 'keys.env'), `ETHEREUM_PRIVATE_KEY=${key}\nnonsense ${key}\nPATH=/evil\n`)
  const { code, stderr } = await cli(['wallet', 'address'], { dataDir: dataDir() })
  expect(code).toBe(2)
  expect(stderr).toMatch(/keys\.env:1: "ETHEREUM_PRIVATE_KEY" does not belong in this file/)
  expect(stderr).toMatch(/keys\.env:3: "PATH" does not belong/)
  expect(stderr).not.toContain('1111')
})

test('without a terminal it says what to do', async () => {
  expect(await cli(['init'], { dataDir: dataDir() })).toMatchObject({ code: 2, stderr: expect.stringMatching(/--yes/) })
})

test('asks on a terminal, hides typed keys, and leaves at Ctrl-C without a change', async () => {
  const environment = { NODE_DATA_DIR: join(dataDir(), 'asked'), HOME: dataDir() }
  const left = openTerminal([stoa, 'init'], { environment })
  await left.shows('On which network do you pay and get paid?')
  left.type(keys.ctrlC)
  expect(await left.exited).toBe(130)
  await expect(stat(environment.NODE_DATA_DIR)).rejects.toThrow()

  const asked = openTerminal([stoa, 'init'], { environment, rows: 50 })
  const answer = async (question: string, typed: string) => {
    await asked.shows(question)
    asked.type(typed)
  }
  await answer('On which network do you pay and get paid?', keys.enter)
  await answer('Find the market in the public DHT', keys.enter)
  await answer('The wallet for payments', keys.down + keys.enter)
  await answer('Private key of the wallet', key + keys.enter)
  await answer('Which provider of language models', keys.enter)
  await answer('Add an agent to sell', keys.enter)
  await answer('Name of the agent', keys.enter)
  await answer('What the agent does', keys.enter)
  await answer('Price of one task in USDC', keys.enter)
  await answer('What the agent runs on', keys.up + keys.enter)
  await answer('Command that starts the program', `cat '${join(dataDir(), 'a b')}'${keys.enter}`)
  expect(await asked.exited).toBe(0)
  await asked.shows('stoa agent discover')
  expect(asked.screen()).toContain('0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A, imported')
  expect(asked.raw()).not.toContain('11111111')
  expect(await readFile(join(environment.NODE_DATA_DIR, 'agents.yaml'), 'utf8')).toContain(
    `command: [ cat, ${join(dataDir(), 'a b')} ]`,
  )
})
