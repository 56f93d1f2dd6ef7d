/** What deploy/ names must exist: files, scripts, variables, flags. No container runtime is needed. */
import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, join, matchesGlob } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { start } from '../src/cli/commands/start.ts'
import { worker } from '../src/cli/commands/worker.ts'
import { readAgentsFile } from '../src/config/agents-yaml.ts'
import { Env } from '../src/config/env.ts'

const root = new URL('..', import.meta.url).pathname
const read = (path: string) => readFileSync(root + path, 'utf8')
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
const variables = new Set([...Object.keys(Env.shape), 'NODE_ENV'])

/** Instructions of the Dockerfile, continued lines joined, by the stage they are in. */
const dockerfile = (() => {
  const stages: { name: string; base: string; steps: { word: string; rest: string }[] }[] = []
  for (const line of read('deploy/Dockerfile').replaceAll('\\\n', ' ').split('\n')) {
    const [, word = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line.trim()) ?? []
    const from = word === 'FROM' ? /^(\S+) AS (\S+)$/.exec(rest) : null
    if (from !== null) stages.push({ base: from[1]!, name: from[2]!, steps: [] })
    else if (word !== '') stages.at(-1)!.steps.push({ word, rest: rest.trim() })
  }
  return stages
})()
const stepsOf = (word: string) => dockerfile.flatMap(({ steps }) => steps.filter((step) => step.word === word))
const last = dockerfile.at(-1)!
const lastOf = (word: string) => last.steps.findLast((step) => step.word === word)?.rest

test('the Dockerfile copies what there is and what its ignore file lets in, and runs scripts that exist', () => {
  const letIn = read('deploy/Dockerfile.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1))
  for (const name of letIn) expect(existsSync(root + name), name).toBe(true)
  for (const { rest } of stepsOf('COPY')) {
    const words = rest.split(/\s+/)
    if (words[0]!.startsWith('--from=')) {
      expect(dockerfile.map(({ name }) => name)).toContain(words[0]!.slice('--from='.length))
      continue
    }
    for (const source of words.slice(0, -1)) if (source !== '.') expect(letIn, source).toContain(source)
  }
  for (const [, name] of stepsOf('RUN').flatMap(({ rest }) => [...rest.matchAll(/npm run (\S+)/g)])) {
    expect(scripts).toHaveProperty([name!])
  }
  // What the build script and the type checker read must get in.
  for (const needed of [
    'build.ts',
    'build-parts.ts',
    'dashboard/build.ts',
    'src/main.ts',
    'devnet/main.ts',
    'tsconfig.build.json',
  ]) {
    expect(
      letIn.some((name) => matchesGlob(needed, `${name}/**`) || needed === name),
      needed,
    ).toBe(true)
  }
})

test('the image ends as a user that is not root, keeps its data in a volume and starts the node', () => {
  expect(last.name).toBe('node')
  expect(lastOf('USER')).toBe('node')
  expect(lastOf('VOLUME')).toBe('/data')
  expect(
    stepsOf('ENV')
      .map(({ rest }) => rest)
      .join(' '),
  ).toContain('NODE_DATA_DIR=/data')
  expect(JSON.parse(lastOf('ENTRYPOINT')!)).toEqual(['node', '/app/bin/stoa.js'])
  expect(JSON.parse(lastOf('CMD')!)).toEqual(['start'])
})

test('the health check is well while /health answers, and ill otherwise', async () => {
  const [program, ...args] = JSON.parse(/CMD (\[.*\])$/.exec(lastOf('HEALTHCHECK')!)![1]!) as string[]
  expect(program).toBe('node')
  const server = createServer((request, answer) => answer.writeHead(request.url === '/health' ? 200 : 404).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const check = async () => {
    const child = execFile(process.execPath, args, { env: { NODE_API_PORT: String(port) } })
    return ((await once(child, 'exit')) as [number])[0]
  }
  expect(await check()).toBe(0)
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
  expect(await check()).toBe(1)
})

type Service = {
  build?: { dockerfile: string; target: string }
  image?: string
  command?: string[]
  entrypoint?: string[]
  healthcheck?: { test?: string[]; disable?: boolean }
  stop_grace_period?: string
  secrets?: string[]
  configs?: { source: string; target: string }[]
  ports?: string[]
  environment?: Record<string, string>
  volumes?: string[]
  profiles?: string[]
  network_mode?: string
}

test('compose.yaml names stages, variables, flags and volumes that exist', () => {
  const text = read('deploy/compose.yaml')
  const compose = parse(text, { merge: true }) as { services: Record<string, Service>; volumes: Record<string, null> }
  expect(Object.keys(compose.services)).toEqual(expect.arrayContaining(['seller', 'buyer', 'devnet']))
  expect(compose.services.seller?.environment).toHaveProperty('SELLER_PRIVATE_KEY')
  expect(compose.services.buyer?.environment).toHaveProperty('BUYER_PRIVATE_KEY')
  const flags = Object.values(start.options).map((option) => /--[a-z0-9-]+/.exec(option.flags)![0])
  for (const [name, service] of Object.entries(compose.services)) {
    expect(
      dockerfile.map((stage) => stage.name),
      name,
    ).toContain(service.build?.target)
    expect(existsSync(root + service.build!.dockerfile)).toBe(true)
    for (const variable of Object.keys(service.environment ?? {})) expect(variables, name).toContain(variable)
    for (const volume of service.volumes ?? []) expect(compose.volumes).toHaveProperty([volume.split(':')[0]!])
    for (const word of service.command ?? []) if (word.startsWith('--')) expect(flags, name).toContain(word)
    const isDev = name.startsWith('devnet')
    expect(service.profiles ?? [], name).toEqual(isDev ? ['devnet'] : [])
  }
  for (const [, variable] of text.matchAll(/\$\{([A-Z_]+)/g)) expect(variables).toContain(variable)
  // Keys that everybody knows stay with the devnet.
  for (const name of ['seller', 'buyer']) {
    expect(Object.values(compose.services[name]!.environment!).join(' ')).not.toMatch(/0x(1{64}|2{64})/)
  }
})

type Fleet = {
  services: Record<string, Service>
  volumes: Record<string, null>
  secrets: Record<string, { file: string }>
  configs: Record<string, { file: string }>
}
const fleetText = read('deploy/compose.fleet.yaml')
const fleet = parse(fleetText, { merge: true }) as Fleet
const fleetOf = (name: string) => Object.entries(fleet.services).filter(([service]) => service.startsWith(name))

test('compose.fleet.yaml names stages, variables, flags, secrets, files and volumes that exist', () => {
  expect(fleetOf('seller-')).toHaveLength(3)
  expect(fleetOf('worker-')).toHaveLength(2)
  const flags = [start, worker].flatMap(({ options }) =>
    Object.values(options).map((option) => /--[a-z0-9-]+/.exec(option.flags)![0]),
  )
  for (const [name, service] of Object.entries(fleet.services)) {
    const isOurs = service.image === 'stoa'
    if (isOurs) {
      expect(dockerfile.map((stage) => stage.name)).toContain(service.build?.target)
      expect(existsSync(root + service.build!.dockerfile)).toBe(true)
      expect(service.stop_grace_period, name).toMatch(/^\d+s$/)
      expect(service.healthcheck, name).toBeDefined()
      for (const variable of Object.keys(service.environment ?? {})) expect(variables, name).toContain(variable)
      for (const word of service.command ?? []) if (word.startsWith('--')) expect(flags, name).toContain(word)
      // Keys and passwords are in files.
      expect(JSON.stringify(service.environment ?? {}), name).not.toMatch(/PRIVATE_KEY|DATABASE_URL|PASSWORD/)
    }
    for (const volume of service.volumes ?? []) expect(fleet.volumes).toHaveProperty([volume.split(':')[0]!])
    for (const secret of service.secrets ?? []) expect(fleet.secrets, name).toHaveProperty([secret])
    for (const { source } of service.configs ?? []) expect(fleet.configs, name).toHaveProperty([source])
    const script = service.entrypoint?.join('\n') ?? ''
    for (const [, secret] of `${script} ${service.command?.join(' ')}`.matchAll(/\/run\/secrets\/([\w.]+)/g)) {
      expect(service.secrets, name).toContain(secret)
    }
  }
  for (const { file } of Object.values(fleet.configs)) expect(existsSync(`${root}deploy/${file}`), file).toBe(true)
  // The head of the file says what is to be put where.
  const head = fleetText.slice(0, fleetText.indexOf('\nname:'))
  for (const { file } of Object.values(fleet.secrets)) expect(head, file).toContain(basename(file).replace(/_2$/, '_1'))
  expect(read('.gitignore')).toContain('deploy/secrets/')
  for (const [, variable] of fleetText.matchAll(/\$\{([A-Z_]+)/g)) {
    expect([...variables, 'NODE_ANNOUNCE_IP']).toContain(variable)
  }
})

test('each seller of compose.fleet.yaml announces the port that its machine forwards', () => {
  const backends = read('deploy/fleet/haproxy.cfg')
  for (const [name, { environment, ports }] of fleetOf('seller-')) {
    const [, announced] = /\/tcp\/(\d+)$/.exec(environment!.NODE_ANNOUNCE_ADDR!)!
    expect(ports).toEqual([`${announced}:4001/tcp`, `${announced}:4001/udp`])
    expect(backends).toContain(`server ${name} ${name}:4001 check`)
  }
})

test('the agents of compose.fleet.yaml are valid, and workers run what the seller leaves to them', async () => {
  const [own, workers] = await Promise.all(
    ['agents.yaml', 'worker-agents.yaml'].map((name) => readAgentsFile(`${root}deploy/fleet/${name}`)),
  )
  const left = own!.filter((agent) => agent.worker === true).map(({ name }) => name)
  expect(left.length).toBeGreaterThan(0)
  expect(workers!.map(({ name }) => name)).toEqual(expect.arrayContaining(left))
})

test('a seller of compose.fleet.yaml starts with its secrets from files, and shows them to nobody else', () => {
  const dir = mkdtempSync(join(tmpdir(), 'stoa-fleet-'))
  for (const name of ['run/secrets', 'run/configs', 'data']) mkdirSync(join(dir, name), { recursive: true })
  const given = { 'identity.key': 'who', wallet_key: '0xkey\n', database_url: 'postgres://a:b@c/d\n' }
  for (const [name, text] of Object.entries(given)) writeFileSync(join(dir, 'run/secrets', name), text)
  writeFileSync(join(dir, 'run/configs/agents.yaml'), 'agents: []')
  const [program, flag, script, ...rest] = fleet.services['seller-2']!.entrypoint!
  const here = script!
    // Compose takes two for one.
    .replaceAll('$$', '$')
    .replaceAll(/\/(run|data)\//g, `${dir}/$1/`)
    .replace('exec node /app/bin/stoa.js', `exec printf '%s|' "$DATABASE_URL" "$SELLER_PRIVATE_KEY"`)
  const args = [flag!, here, ...rest, ...fleet.services['seller-2']!.command!]
  expect(execFileSync(program!, args, { encoding: 'utf8' })).toBe('postgres://a:b@c/d|0xkey|start|--port|4001|')
  expect(readFileSync(join(dir, 'data/identity.key'), 'utf8')).toBe('who')
  expect(statSync(join(dir, 'data/identity.key')).mode & 0o777).toBe(0o600)
  rmSync(dir, { recursive: true })
})

test('the service reads variables that exist; its examples parse', () => {
  for (const [, name] of read('deploy/systemd/stoa.env').matchAll(/^#?([A-Z_]+)=/gm)) expect(variables).toContain(name)
  expect(read('deploy/systemd/stoa.service')).toMatch(/^User=stoa$/m)
})

const hasAnalyze = () => {
  try {
    execFileSync('systemd-analyze', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
test.skipIf(!hasAnalyze())('systemd has nothing to say against the unit', () => {
  const unit = `${root}deploy/systemd/stoa.service`
  expect(execFileSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' })).toBe('')
})
