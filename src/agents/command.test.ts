import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { type Logger, silentLogger } from '../lib/logger.ts'
import { commandRuntime } from './command.ts'
import { runBounded } from './hosted-agent.ts'
import type { AgentError } from './runtime.ts'

let directory: string
let logged: { fields: object; message: string }[]

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-command-'))
  logged = []
})
afterEach(async () => {
  await rm(directory, { recursive: true })
})

const record = (fields: object, message: string) => void logged.push({ fields, message })
const logger: Logger = { ...silentLogger, warn: record, error: record, child: () => logger }

type Options = {
  input?: string
  signal?: AbortSignal
  timeoutMs?: number
  outputBytesMax?: number
  env?: Record<string, string>
  args?: string[]
  onOutput?: (text: string) => void
}

/** Runs a program as the registry does. */
function runCommand(command: string[], options: Options = {}): Promise<string> {
  const {
    input = '',
    signal = new AbortController().signal,
    timeoutMs = 20_000,
    outputBytesMax = 1_000_000,
    env = {},
    onOutput,
  } = options
  const runtime = commandRuntime({ name: 'a', command, outputBytesMax, readEnv: (name) => env[name] }, { logger })
  return runBounded(
    runtime,
    { timeoutMs, outputBytesMax },
    { input, callerId: 'c', history: [], signal, ...(onOutput && { onOutput }) },
  )
}

function runScript(script: string, options: Options = {}): Promise<string> {
  return runCommand([process.execPath, '-e', script, '--', directory, ...(options.args ?? [])], options)
}

async function failure(running: Promise<string>): Promise<AgentError> {
  const error = await running.then(
    (output) => expect.fail(`gave ${output.slice(0, 100)}`),
    (error: AgentError) => error,
  )
  expect(error.name).toBe('AgentError')
  for (const text of [error.message]) expect(text).not.toContain(directory)
  return error
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const pidIn = (name: string) =>
  until(async () => Number(await readFile(join(directory, name), 'utf8').catch(() => '0')))
const writePid = (name: string) =>
  `fs.writeFileSync(require('path').join(process.argv[1], '${name}'), String(process.pid));`
const readAll = `let text = ''; process.stdin.on('data', (d) => text += d).on('end', () => work(text));`

test('the task goes in on stdin and the result comes out on stdout, less one line break (D10)', async () => {
  const script = `${readAll} function work(text) { console.log(text.toUpperCase()); }`
  expect(await runScript(script, { input: 'straße 🚀\n' })).toBe('STRASSE 🚀\n')
})

test('megabytes pass both ways whole', async () => {
  const input = 'äöü'.repeat(500_000)
  expect(await runScript('process.stdin.pipe(process.stdout)', { input, outputBytesMax: 4_000_000 })).toBe(input)
})

test('no shell reads the arguments or the task', async () => {
  const args = ['$(id)', '; touch x', '*', '`id`', '"']
  const script = 'console.log(JSON.stringify(process.argv.slice(2)))'
  expect(JSON.parse(await runScript(script, { args, input: '; id' }))).toEqual(args)
})

test('a program sees an allow-list of the environment and no secret (T21)', async () => {
  const env = {
    PATH: '/bin',
    LANG: 'C',
    OPENAI_API_KEY: 'sk-1',
    ETHEREUM_PRIVATE_KEY: '0x1',
    NODE_API_TOKEN: 't',
    NODE_OPTIONS: '-r x',
    HTTPS_PROXY: 'http://user:password@proxy.example',
    // Without the authority of its company, a program reaches nothing outside.
    NODE_EXTRA_CA_CERTS: '/etc/company.pem',
    SSL_CERT_FILE: '/etc/company.pem',
  }
  expect(JSON.parse(await runScript('console.log(JSON.stringify(process.env))', { env }))).toEqual({
    PATH: '/bin',
    LANG: 'C',
    NODE_EXTRA_CA_CERTS: '/etc/company.pem',
    SSL_CERT_FILE: '/etc/company.pem',
  })
})

test('a program that does not read its task is no failure', async () => {
  const script = `process.stdin.destroy(); fs.closeSync(0); setTimeout(() => console.log('done'), 50)`
  expect(await runScript(script, { input: 'x'.repeat(5_000_000) })).toBe('done')
})

test('another exit status is a failure; what the program says on stderr is logged in part and never told (T21)', async () => {
  const script = `process.stderr.write('e'.repeat(1_000_000) + 'the end', () => process.exit(3))`
  const error = await failure(runScript(script))
  expect(error).toMatchObject({ code: 'AGENT_FAILED', message: "the agent's program failed with exit status 3" })
  const { reason } = logged[0]!.fields as { reason: string }
  expect(reason.length).toBe(8192)
  expect(reason.endsWith('the end')).toBe(true)
})

test('a program that kills itself is a failure that names the signal', async () => {
  const error = await failure(runScript(`process.kill(process.pid, 'SIGKILL')`))
  expect(error).toMatchObject({ code: 'AGENT_FAILED', message: "the agent's program was ended by SIGKILL" })
})

test.each([[['/no/such/program', 'x']], [['no-such-program-anywhere']], [[tmpdir()]], [['']], [['a\0b']]])(
  'a program that cannot be started, %j, is told to the operator and not to the buyer (T20)',
  async (command) => {
    const error = await failure(runCommand(command, { input: 'x'.repeat(100_000), env: { PATH: '/usr/bin:/bin' } }))
    expect(error).toMatchObject({
      code: 'AGENT_NOT_RUNNABLE',
      message: "the agent's program cannot be started: its seller must check `command`",
    })
    expect(logged[0]?.fields).toMatchObject({ path: command[0] })
  },
)

test('endless output is cut off at the limit, and its program with it', async () => {
  const script = `${writePid('pid')} const more = () => { while (process.stdout.write('x'.repeat(65536))); process.stdout.once('drain', more) }; more()`
  const error = await failure(runScript(script, { outputBytesMax: 100_000 }))
  expect(error.code).toBe('AGENT_OUTPUT_TOO_LARGE')
  const pid = await pidIn('pid')
  await until(() => !isAlive(pid))
})

test('output of exactly the limit passes, one byte more does not', async () => {
  const script = `process.stdout.write('x'.repeat(1000))`
  expect((await runScript(script, { outputBytesMax: 1000 })).length).toBe(1000)
  expect((await failure(runScript(script, { outputBytesMax: 999 }))).code).toBe('AGENT_OUTPUT_TOO_LARGE')
})

test('output that is not UTF-8 becomes text all the same', async () => {
  const output = await runScript('process.stdout.write(Buffer.from([0x61, 0xff, 0x62]))')
  expect(output).toBe('a\ufffdb')
})

test('the time limit ends the program', async () => {
  const error = await failure(runScript(`${writePid('pid')} setInterval(() => {}, 1000)`, { timeoutMs: 500 }))
  expect(error).toMatchObject({ code: 'AGENT_TIMEOUT' })
  const pid = await pidIn('pid')
  expect(isAlive(pid)).toBe(false)
})

test('a program that ignores SIGTERM is killed', async () => {
  const controller = new AbortController()
  const script = `process.on('SIGTERM', () => {}); ${writePid('pid')} setInterval(() => {}, 1000)`
  const running = failure(runScript(script, { signal: controller.signal }))
  const pid = await pidIn('pid')
  const at = performance.now()
  controller.abort()
  expect((await running).code).toBe('AGENT_CANCELLED')
  expect(isAlive(pid)).toBe(false)
  expect(performance.now() - at).toBeGreaterThan(900)
})

test('a program that ends on SIGTERM has the time to do so', async () => {
  const controller = new AbortController()
  const script = `process.on('SIGTERM', () => { fs.writeFileSync(require('path').join(process.argv[1], 'bye'), '1'); process.exit() });
    ${writePid('pid')} setInterval(() => {}, 1000)`
  const running = failure(runScript(script, { signal: controller.signal }))
  await pidIn('pid')
  controller.abort()
  expect((await running).code).toBe('AGENT_CANCELLED')
  expect(await pidIn('bye')).toBe(1)
})

const grandchild = (ignore: string) => `
  const { spawn } = require('node:child_process');
  spawn(process.execPath, ['-e', ${JSON.stringify(`${ignore} ${writePid('grandchild')} setInterval(() => {}, 1000)`)}, '--', process.argv[1]], { stdio: 'inherit' }).unref();`
const waitForGrandchild = `while (!fs.existsSync(require('path').join(process.argv[1], 'grandchild')));`

test('what a program started ends with it when it is canceled, even against SIGTERM', async () => {
  const controller = new AbortController()
  const script = `${grandchild("process.on('SIGTERM', () => {});")} setInterval(() => {}, 1000)`
  const running = failure(runScript(script, { signal: controller.signal }))
  const pid = await pidIn('grandchild')
  controller.abort()
  expect((await running).code).toBe('AGENT_CANCELLED')
  await until(() => !isAlive(pid))
})

test('what a program leaves behind ends with it, and does not hold up the result', async () => {
  const at = performance.now()
  const script = `${grandchild("process.on('SIGTERM', () => {});")} ${waitForGrandchild} console.log('done'); process.exit(0)`
  expect(await runScript(script)).toBe('done')
  expect(performance.now() - at).toBeLessThan(30_000)
  const pid = await pidIn('grandchild')
  await until(() => !isAlive(pid))
})

test('what passes the output on outlives the program until it is silent', async () => {
  const command = ['bash', '-c', 'exec > >(sleep 0.3; cat); echo whole']
  expect(await runCommand(command, { env: { PATH: '/usr/bin:/bin' } })).toBe('whole')
})

test('output that another process holds open is not complete, and no result', async () => {
  const holder = `${writePid('holder')} setInterval(() => {}, 1000)`
  const script = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(holder)}, '--', process.argv[1]],
      { stdio: ['ignore', 1, 'ignore'], detached: true }).unref();
    while (!fs.existsSync(require('path').join(process.argv[1], 'holder'))); console.log('half'); process.exit(0)`
  const error = await failure(runScript(script))
  expect(error).toMatchObject({
    code: 'AGENT_FAILED',
    message: "the agent's program ended before its output was complete",
  })
  process.kill(await pidIn('holder'), 'SIGKILL')
})

/** Two children end in one turn of the loop, which reads of one before it takes note of both, and then stands still. */
test.runIf(process.platform === 'linux')(
  'output that lies unread while the event loop stands still is read all the same',
  async () => {
    const env = { PATH: '/usr/bin:/bin' }
    const script = `echo $$ > "$0/$1"; while [ ! -e "$0/go-$1" ]; do :; done; head -c 100000 /dev/zero | tr '\\0' x`
    const go = (name: string) => {
      const pid = readFileSync(join(directory, name), 'utf8').trim()
      writeFileSync(join(directory, `go-${name}`), '')
      while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')));
    }
    const standStill = () => {
      const from = performance.now()
      while (performance.now() - from < 1500);
    }
    let told = false
    const onOutput = () => {
      if (told) return
      told = true
      go('second')
      setImmediate(standStill)
    }
    const command = (name: string) => ['/bin/sh', '-c', script, directory, name]
    const first = runCommand(command('first'), { env, onOutput })
    const second = runCommand(command('second'), { env })
    await Promise.all([pidIn('first'), pidIn('second')])
    go('first')
    expect([(await first).length, (await second).length]).toEqual([100_000, 100_000])
  },
)

test('a machine that can open no more files fails the run and nothing else', async () => {
  const script = fileURLToPath(new URL('../../test/support/run-without-files.ts', import.meta.url))
  const run = spawnSync('/bin/sh', ['-c', 'ulimit -n 64; exec "$0" --no-warnings "$1"', process.execPath, script])
  expect(run.stderr.toString()).toBe('')
  expect(JSON.parse(run.stdout.toString())).toEqual({
    command: 'AGENT_FAILED',
    mcp: 'EMFILE',
    interfaces: 'remembered',
    after: 'alive',
  })
})

test('a canceled task never starts a program', async () => {
  const error = await failure(runScript(writePid('pid'), { signal: AbortSignal.abort() }))
  expect(error.code).toBe('AGENT_CANCELLED')
  await expect(readFile(join(directory, 'pid'))).rejects.toMatchObject({ code: 'ENOENT' })
})

test('the program is not named in what the market sees', () => {
  const runtime = commandRuntime(
    { name: 'a', command: ['/home/me/x', '--key=1'], outputBytesMax: 1, readEnv: () => undefined },
    { logger },
  )
  expect(runtime.model).toBe('command')
})
