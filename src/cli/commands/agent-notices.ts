import type { Lack } from '../../agents/runtime.ts'
import type { Secrets } from '../../config/secrets.ts'
import { reasonOf } from '../../lib/errors.ts'
import { silentLogger } from '../../lib/logger.ts'
import type { AgentDefinition } from '../../schema/agent.ts'

/** What the operator should know about an agent before it meets a buyer (D10, T20). */
export type AgentNotice = {
  definition: AgentDefinition
  /** What is wrong, and the fix. */
  text: string
  /** It cannot be registered at all. */
  broken: boolean
  /** It has nothing to run on, and so is not listed: a key, or a part of it that is not there. */
  lacks: Lack | undefined
}

/** Looks at what each agent would run on, without running or loading anything. Agents that are well are left out. */
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
