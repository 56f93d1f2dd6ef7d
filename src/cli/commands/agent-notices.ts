import type { Lack } from '../../agents/runtime.ts'
import type { Secrets } from '../../config/secrets.ts'
import { reasonOf } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import type { AgentDefinition } from '../../schema/agent.ts'

/** A problem of an agent that its operator should know before a buyer calls it (D10, T20). */
export type AgentNotice = {
  definition: AgentDefinition
  text: string
  /** True if the agent cannot be registered. */
  broken: boolean
  /** What the agent lacks to run: a key, or a part. Such an agent is not listed. */
  lacks: Lack | undefined
}

/** Checks what each agent would run on, without running or loading it. Returns only agents with a problem. */
export async function inspectAgents(
  definitions: readonly AgentDefinition[],
  secrets: Pick<Secrets, 'providerKeys' | 'env'>,
  dataDir: string,
): Promise<AgentNotice[]> {
  if (definitions.length === 0) return []
  const { createRuntimeFactory } = await import('../../agents/create-runtime.ts')
  const options = { providerKeys: secrets.providerKeys, readKey: (name: string) => secrets.env(name), dataDir }
  const createRuntime = createRuntimeFactory(options, { fetch, logger: silentLogger })
  const notices = await Promise.all(
    definitions.map(async (definition): Promise<AgentNotice | undefined> => {
      try {
        const { notice: text, lacks } = await createRuntime(definition)
        return text === undefined ? undefined : { definition, text, broken: false, lacks }
      } catch (error) {
        return { definition, text: reasonOf(error), broken: true, lacks: undefined }
      }
    }),
  )
  return notices.filter((notice) => notice !== undefined)
}
