/** A node in a process of its own, asked over standard input: a line of JSON each way. Its network is its namespace. */
import { createInterface } from 'node:readline'
import type { ExecuteRequest } from '../../src/buying/execute.ts'
import { createConfig } from '../../src/config/config.ts'
import { createSecrets } from '../../src/config/secrets.ts'
import type { Settings } from '../../src/config/settings.ts'
import type { Logger } from '../../src/lib/logger.ts'
import { createNode } from '../../src/node/create-node.ts'
import type { AgentDefinition } from '../../src/schema/agent.ts'

type Start = Settings & { dataDir: string; key: string; agent?: { name: string; price: string } }

const { key, agent, ...settings } = JSON.parse(process.argv[2]!) as Start
const write = (level: string) => (fields: object, message: string) =>
  process.stderr.write(`${level} ${message} ${JSON.stringify(fields)}\n`)
const logger: Logger = {
  ...{ debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
  child: () => logger,
}
const config = createConfig({ port: 4001, mdns: false, apiEnabled: false, ...settings })
const environment = { ETHEREUM_PRIVATE_KEY: key as `0x${string}` }
const node = await createNode(config, createSecrets(environment, environment), { logger })
await node.start()
if (agent !== undefined) {
  const definition = { name: agent.name, description: 'Repeats.', price: BigInt(agent.price), model: 'builtin/echo' }
  await node.registerAgent(definition as AgentDefinition, { persist: false })
}

const methods: Record<string, (argument: unknown) => unknown> = {
  status: () => node.status(),
  peers: () => node.peers(),
  listings: () => node.listings().map(({ price, ...rest }) => ({ ...rest, price: String(price) })),
  execute: (request) => node.execute({ ...(request as ExecuteRequest), signal: AbortSignal.timeout(20_000) }),
}
const say = (answer: object) => process.stdout.write(`${JSON.stringify(answer)}\n`)

say({ ready: { peer_id: node.peerId, addresses: node.addresses() } })
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, argument } = JSON.parse(line) as { id: number; method: string; argument: unknown }
  const answer = async () => await methods[method]!(argument)
  answer().then(
    (result) => say({ id, result }),
    (error: Error) => say({ id, error: error.message }),
  )
}
await node.stop()
process.exit(0)
