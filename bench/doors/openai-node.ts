import { createNode } from '../../src/node/create-node.ts'
import { benchConfig } from '../paid-call/stoa-config.ts'
import { servePart } from '../part.ts'

/** Agents that a request for `auto` chooses from. */
const AGENTS = 60

/** A node with its API, the OpenAI door and agents of its own, which cost nothing. */
servePart(async ({ dataDir = '' }) => {
  const { config, secrets } = benchConfig({ dataDir, databaseUrl: '' })
  const open = {
    ...config,
    api: { ...config.api, enabled: true, port: 0 },
    openai: { ...config.openai, enabled: true },
  }
  const node = await createNode(open, secrets)
  await node.start()
  const ids: string[] = []
  for (let index = 0; index < AGENTS; index++) {
    const { id } = await node.registerAgent(
      { name: `Echo ${index}`, description: 'Answers.', price: 0n, model: 'builtin/echo', tags: ['chat'] },
      { persist: false },
    )
    ids.push(id)
  }
  return { ready: { url: node.apiUrl!, agentId: ids[0]! }, stop: () => node.stop() }
})
