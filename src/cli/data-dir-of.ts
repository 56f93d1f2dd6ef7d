import { type Config, resolveDataDir } from '../config/config.ts'
import { ConfigError } from '../config/config-error.ts'
import { readEnv } from '../config/env.ts'
import type { Settings } from '../config/settings.ts'
import type { Context } from './command.ts'

/**
 * The data directory, for a command that must work although config.yaml has a mistake: an operator who has just made the
 * mistake stops the node, or reads its log.
 *
 * @returns config: undefined if a setting cannot be used. Standard error then says which
 * @throws ConfigError for a variable that cannot be used
 */
export async function dataDirOf(
  context: Context,
  flags: Settings,
): Promise<{ dataDir: string; config: Config | undefined }> {
  const dataDir = resolveDataDir(flags, readEnv(context.io.environment))
  try {
    const { config } = await context.loadConfig(flags)
    return { dataDir, config }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    context.tell(error.message)
    return { dataDir, config: undefined }
  }
}
