import { Readable, Writable } from 'node:stream'
import { patientFetch } from '../../lib/http.ts'
import { stoaVersion } from '../../lib/version.ts'
import { command } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { requireRunningNode } from '../node-access/running-node.ts'

export const mcp = command({
  name: 'mcp',
  summary: 'Offer the market to a program over MCP, on standard input and output',
  details:
    'Assistants and editors start this command themselves. It offers tools that find, quote and execute agents. It passes each call to the node that runs on the data directory, so all programs share the wallet and the budget of that node. You may start the node later. A program that speaks streamable HTTP can use /mcp of the node instead.',
  examples: ['stoa mcp', 'stoa mcp --data-dir /srv/stoa'],
  async run(context, flags) {
    const { config, secrets } = await context.loadConfig(flags)
    const { io } = context
    const { serveMcpStdio } = await import('../../mcp/stdio.ts')
    await serveMcpStdio(
      { version: stoaVersion() },
      {
        input: Readable.from(io.stdin, { objectMode: false }),
        output: new Writable({
          write(chunk, _encoding, done) {
            io.stdout.write(String(chunk))
            done()
          },
        }),
        findNode: async () => {
          const { url, token } = await requireRunningNode(context, config, secrets)
          return { url, token }
        },
        fetch: patientFetch,
        tell: context.tell,
        signal: io.signal,
      },
    )
    return exitCodes.done
  },
})
