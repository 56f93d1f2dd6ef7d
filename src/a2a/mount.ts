import type { A2aCall } from './call.ts'
import type { A2aServer } from './server.ts'

/**
 * Mounts A2A in the API. Anyone may read cards, like everything under `.well-known`. All other requests do work and may
 * spend the node's money, so they are admitted like an execution (D16). The server and its libraries load with the
 * first request.
 */
export function a2aMount(load: () => Promise<A2aServer>) {
  let loading: Promise<A2aServer> | undefined
  let server: A2aServer | undefined
  return {
    path: '/a2a',
    methods: ['GET', 'POST', 'DELETE'],
    offered(rest: string) {
      if (isCard(rest)) return ['GET']
      return /^\/[^/]+\/rest\//.test(rest) ? ['GET', 'POST', 'DELETE'] : ['POST']
    },
    requestHeaders: ['a2a-version', 'a2a-extensions', 'x-a2a-extensions'],
    access(method: string, rest: string) {
      return isCard(rest) && method === 'GET' ? ('health' as const) : ('private' as const)
    },
    scope: () => 'execute' as const,
    async handle(call: A2aCall): Promise<void> {
      loading ??= load().catch((error: unknown) => {
        loading = undefined
        throw error
      })
      server = await loading
      await server.handle(call)
    },
    async stop(): Promise<void> {
      await server?.stop()
    },
  }
}

function isCard(rest: string): boolean {
  return /^\/[^/]+\/\.well-known\/agent(?:-card)?\.json$/.test(rest)
}
