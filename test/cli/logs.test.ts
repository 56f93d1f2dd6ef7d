import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createLog } from '../../src/cli/log.ts'
import { createLogFile } from '../../src/cli/log-file.ts'
import { createRedactor } from '../../src/cli/redactor.ts'
import { until } from '../support/until.ts'
import { cli, fakeNode, runningNode, status, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const path = () => join(dataDir(), 'stoa.log')
const line = (level: string, msg: string) => `${JSON.stringify({ level, time: '2026-01-01T12:30:01.000Z', msg })}\n`

test('the log of a node is stored, bounded, and readable only by its owner', async () => {
  const file = createLogFile(path(), { bytesMax: 2000 })
  for (let n = 0; n < 100; n++) file.write(line('info', `line ${n}`))
  file.close()
  const sizes = [(await stat(path())).size, (await stat(`${path()}.1`)).size]
  expect(Math.max(...sizes)).toBeLessThanOrEqual(2000)
  expect((await stat(path())).mode & 0o777).toBe(0o600)
  const { stdout } = await cli(['logs', '--lines', '20'], { dataDir: dataDir() })
  expect(stdout.trimEnd().split('\n')).toHaveLength(20)
  expect(stdout).toContain('12:30:01 info  line 80\n')
  expect(stdout).toContain('line 99')
})

test('a mistake in config.yaml hides neither the log nor the node that is to be stopped', async () => {
  await writeFile(path(), line('warn', 'it began'))
  await writeFile(join(dataDir(), 'config.yaml'), 'seller: {settle_frist: true}\n')
  const logs = await cli(['logs'], { dataDir: dataDir() })
  expect(logs).toMatchObject({ code: 0, stdout: expect.stringContaining('it began') })
  expect(logs.stderr).toContain('settle_frist')
  const stop = await cli(['stop'], { dataDir: dataDir() })
  expect(stop).toMatchObject({ code: 6, stderr: expect.stringContaining(`no Stoa node is running on ${dataDir()}`) })
})

test('an error is logged by its name, not by the letter that the bundle gave its class', () => {
  let line = ''
  const output = {
    isTty: false,
    write: (text: string) => {
      line += text
    },
  }
  class n extends Error {
    override name = 'AgentError'
  }
  const log = createLog('warn', output, { redactor: createRedactor({}), style: {} as never })
  log.warn({ err: new n('it failed') }, 'a run failed')
  expect(JSON.parse(line)).toMatchObject({ err: { type: 'AgentError', message: 'it failed' } })
})

test('an aborted call is logged with its reason, without the constants of its class', () => {
  let line = ''
  const output = {
    isTty: false,
    write(text: string) {
      line = text
    },
  }
  const log = createLog('warn', output, { redactor: createRedactor({}), style: {} as never })
  log.warn({ err: AbortSignal.abort().reason }, 'a call was cut off')
  expect(JSON.parse(line).err).toMatchObject({ type: 'AbortError', message: 'This operation was aborted' })
  expect(line).not.toContain('_ERR')
  log.warn({ err: new Error('broken') }, 'a call failed')
  expect(JSON.parse(line).err).toMatchObject({ type: 'Error', message: 'broken' })
})

test('no part of DATABASE_URL that holds its password is logged (T21)', () => {
  let line = ''
  const output = {
    isTty: false,
    write(text: string) {
      line = text
    },
  }
  const url = 'postgres://stoa:hunter%40two@db.example/stoa'
  const log = createLog('warn', output, { redactor: createRedactor({ DATABASE_URL: url }), style: {} as never })
  log.warn({ err: new Error(`cannot use ${url}: hunter@two was refused at db.example`) }, 'no ledger')
  expect(line).not.toContain('hunter')
  expect(line).toContain('was refused at db.example')
})

test('a password that is an ordinary word is hidden where it is the password, and left in the words around it (T21)', () => {
  const url = 'postgres://stoa:password@db.example/stoa?password=password'
  const { redact } = createRedactor({ DATABASE_URL: url })
  expect(redact('db.example refuses the password: correct it (password authentication failed)')).toBe(
    'db.example refuses the password: correct it (password authentication failed)',
  )
  for (const text of [
    `cannot use ${url}`,
    'postgres://stoa:password@elsewhere/stoa',
    '{"user":"stoa","password":"password","port":5432}',
    "{ password: 'password', port: 5432 }",
    'host=db.example password=password dbname=stoa',
    'https://db.example/?password=password&user=stoa',
  ]) {
    const shown = redact(text)
    expect(shown).toContain('[secret]')
    expect(shown).not.toMatch(/:password@|[=:] ?["']?password\b(?!["']?[=:])/)
  }
  const strong = createRedactor({ DATABASE_URL: 'postgres://stoa:passwords-1@db.example/stoa' })
  expect(strong.redact('the password passwords-1 is refused')).toBe('the password [secret] is refused')
  const named = createRedactor({ DATABASE_URL: 'postgres://postgres:postgres@db.example/postgres' })
  expect(named.redact('PostgreSQL at db.example/postgres, postgres://postgres:postgres@db.example/postgres')).toBe(
    'PostgreSQL at db.example/postgres, [secret]',
  )
})

test('a connection that ended, or a text that was thrown, is logged with its reason', () => {
  let line = ''
  const output = {
    isTty: false,
    write(text: string) {
      line = text
    },
  }
  const log = createLog('warn', output, { redactor: createRedactor({}), style: {} as never })
  const closed = Object.assign(new Event('close'), { error: new Error('reset by the peer'), held: 'not for the log' })
  log.warn({ err: closed }, 'a peer cannot be reached')
  expect(JSON.parse(line).err).toMatchObject({ message: 'reset by the peer' })
  expect(line).not.toContain('not for the log')
  log.warn({ err: 'no answer' }, 'a peer cannot be reached')
  expect(JSON.parse(line).err).toMatchObject({ message: 'no answer' })
})

test('shows lines of a level or higher, as JSON for programs, without control sequences of peers (T10)', async () => {
  await writeFile(path(), `${line('debug', 'quiet')}${line('warn', 'peer says \u001b[2J')}not json\n`)
  const warned = await cli(['logs', '--level', 'warn', '--json'], { dataDir: dataDir() })
  expect(
    warned.stdout
      .split('\n')
      .filter(Boolean)
      .map((text) => JSON.parse(text).msg),
  ).toEqual(['peer says \u001b[2J'])
  const all = await cli(['logs'], { dataDir: dataDir() })
  expect(all.stdout).toContain('peer says \ufffd[2J')
  expect(all.stdout).toContain('not json')
})

test('-f continues over a rotation of the file until it is interrupted', async () => {
  const file = createLogFile(path(), { bytesMax: 300 })
  file.write(line('info', 'before'))
  const stop = new AbortController()
  let seen = ''
  const onOutput = (text: string) => {
    seen += text
  }
  const following = cli(['logs', '-f'], { dataDir: dataDir(), signal: stop.signal, onOutput })
  await until(() => seen.includes('before'))
  for (let n = 0; n < 5; n++) {
    file.write(line('info', `line ${n}`))
    await until(() => seen.includes(`line ${n}`))
  }
  stop.abort()
  expect((await following).code).toBe(0)
  file.close()
})

test('stoa start writes its log into the file, without secrets (T21)', async () => {
  const stop = new AbortController()
  const secret = 'ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
  const { parts, seen } = fakeNode({
    async start() {
      seen.logger!.warn({ reason: `key ${secret}` }, 'something')
      stop.abort()
    },
  })
  await cli(['start'], {
    dataDir: dataDir(),
    parts,
    signal: stop.signal,
    environment: { ETHEREUM_PRIVATE_KEY: secret },
  })
  const { stdout } = await cli(['logs'], { dataDir: dataDir() })
  expect(stdout).toContain('warn  something  reason=key [secret]')
})

test('a key of keys.env is removed from the log (T21)', async () => {
  const stop = new AbortController()
  await writeFile(join(dataDir(), 'keys.env'), 'MY_MODEL_KEY=key-abcdefgh\n', { mode: 0o600 })
  const { parts, seen } = fakeNode({
    async start() {
      seen.logger!.warn({ reason: 'key-abcdefgh' }, 'something')
      stop.abort()
    },
  })
  const { stderr } = await cli(['start'], { dataDir: dataDir(), parts, signal: stop.signal })
  expect(stderr).toContain('[secret]')
  expect(stderr + (await cli(['logs'], { dataDir: dataDir() })).stdout).not.toContain('key-abcdefgh')
  expect(seen.secrets?.env('MY_MODEL_KEY')).toBe('key-abcdefgh')
})

test('status --watch refreshes until it is interrupted', async () => {
  const stop = new AbortController()
  let asked = 0
  const { parts } = await runningNode(dataDir(), {
    status: async () => {
      // One is asked to find the node, two are shown.
      if (++asked === 3) queueMicrotask(() => stop.abort())
      return status
    },
  })
  const run = await cli(['status', '--watch', '--json'], { dataDir: dataDir(), parts, signal: stop.signal })
  expect(run.code).toBe(0)
  expect(run.stdout.trimEnd().split('\n')).toHaveLength(2)
})
