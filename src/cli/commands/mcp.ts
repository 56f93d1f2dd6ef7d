import { Readable, Writable } from 'node:stream'
import { patientFetch } from '../../lib/patient-fetch.ts'
import { stoaVersion } from '../../lib/version.ts'
import { command, commonOptions } from '../command.ts'
import { exitCodes } from '../exit-code.ts'
import { requireRunningNode } from '../node-access/running-node.ts'

export const mcp = command({
  name: 'mcp',
  summary: 'Serve the market to a program over MCP, on standard input and output',
  details:
    'For programs such as assistants and editors, which start it themselves: it offers tools to find, quote and execute agents, and hands each call to the node that runs on the data directory. So all of them share its wallet and its budget. The node may be started later. Programs that speak streamable HTTP can use the node’s /mcp instead.',
  examples: ['stoa mcp', 'stoa mcp --data-dir /srv/stoa'],
  options: { ...commonOptions },
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
