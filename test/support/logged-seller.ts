import type { Devnet } from '../../devnet/devnet.ts'
import { createLog } from '../../src/cli/log.ts'
import { createRedactor } from '../../src/cli/redactor.ts'
import { styleOf } from '../../src/cli/text/terminal-text.ts'
import { startTestNode } from './test-node.ts'

/**
 * A seller on the public listener with a log at its lowest level, and two agents for 0.001 USDC: `echo` gives its task back, and
 * `fails` does not work.
 *
 * @param write gets the log
 */
export async function startLoggedSeller(
  {
    devnet,
    facilitatorUrl,
    ...options
  }: { devnet: Devnet; facilitatorUrl: string } & Parameters<typeof startTestNode>[0],
  write: (text: string) => void,
) {
  const output = { write, isTty: false }
  const [redactor, style] = [createRedactor({}), styleOf(output, {})]
  const seller = await startTestNode({
    ...{ devnet: { ...devnet, facilitatorUrl }, walletKey: devnet.wallets.seller.privateKey },
    ...{ public: { port: 0 }, ports: { logger: createLog('debug', output, { redactor, style }) } },
    ...options,
  })
  const runs = { echo: (task: string) => task, fails: () => Promise.reject(new Error('it fails')) }
  const idOf: Record<string, string> = {}
  for (const [name, run] of Object.entries(runs)) {
    const definition = { name, description: 'Says it again', price: 1_000n }
    idOf[name] = (await seller.node.registerAgent(definition, { persist: false, run })).id
  }
  return { seller, idOf }
}
