/** A separate process that opens files up to its limit, then starts programs as agents do, and reports the outcome. */
import { closeSync, openSync } from 'node:fs'
import os from 'node:os'
import { commandRuntime } from '../../src/agents/command.ts'
import { mcpProcess } from '../../src/agents/mcp-process.ts'
import { silentLogger } from '../../src/lib/logger.ts'
import { keepInterfacesSteady } from '../../src/p2p/libp2p-fixes/steady-interfaces.ts'

const codeOf = (error: { code?: string }) => error.code
const readEnv = () => undefined
const runtime = commandRuntime(
  { name: 'a', command: ['/bin/echo', 'x'], outputBytesMax: 100, readEnv },
  { logger: silentLogger },
)
const call = { input: '', callerId: 'c', history: [], signal: new AbortController().signal }

keepInterfacesSteady()
const before = JSON.stringify(os.networkInterfaces())
await runtime.run(call)
const files: number[] = []
for (let isFull = false; !isFull; ) {
  try {
    files.push(openSync('/dev/null', 'r'))
  } catch {
    isFull = true
  }
}
const command = await runtime.run(call).catch(codeOf)
const mcp = await mcpProcess(['/bin/cat'], readEnv).start().catch(codeOf)
const interfaces = JSON.stringify(os.networkInterfaces()) === before ? 'remembered' : 'lost'
for (const file of files) closeSync(file)
const after = (await runtime.run(call)) === 'x' ? 'alive' : 'broken'
process.stdout.write(JSON.stringify({ command, mcp, interfaces, after }))
