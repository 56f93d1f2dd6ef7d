import type { Config } from '../config/config.ts'
import { dataFile, loadOrCreateApiToken } from '../store/data-dir.ts'
import { readSecretFile } from '../store/secret-file.ts'
import type { Api, ApiDeps } from './server/app.ts'

/** The node's API, with its token from the environment or the data directory. Loads the HTTP server on demand. */
export async function createNodeApi(
  options: Config['api'] & { dataDir: string; token: string | undefined },
  deps: ApiDeps,
): Promise<Api> {
  const token = options.token ?? (await loadOrCreateApiToken(options.dataDir))
  // Accept the token of the data directory too. Anyone who can read that file is the operator, and commands send its
  // token.
  const fileToken = (await readSecretFile(dataFile(options.dataDir, 'apiToken')))?.trim()
  const { createApi } = await import('./server/app.ts')
  return createApi({ ...options, token, fileToken }, deps)
}
