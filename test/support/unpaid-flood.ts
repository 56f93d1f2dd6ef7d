/** A process that floods an address with requests without a payment, from an address of its own. It prints the answers by status. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const CONNECTIONS = 100
const program = fileURLToPath(import.meta.url)

/** Asks this many times, on a hundred connections at once. @returns how many answers had which status */
export async function unpaidFlood(url: string, requests: number): Promise<Record<string, number>> {
  const child = spawn(process.execPath, [program, url, String(requests)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [said] = await Promise.all([text(child.stdout), once(child, 'exit')])
  return JSON.parse(said) as Record<string, number>
}

async function flood(url: string, requests: number): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {}
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, localAddress: '127.0.0.9' })
  const body = Buffer.from(JSON.stringify({ task: 'x'.repeat(2_000) }))
  const one = () =>
    new Promise<void>((resolve) => {
      const asking = request(url, { method: 'POST', agent, headers: { 'content-type': 'application/json' } })
      asking.on('response', (answer) => {
        const status = String(answer.statusCode)
        statuses[status] = (statuses[status] ?? 0) + 1
        answer
          .resume()
          .on('end', resolve)
          .on('error', () => resolve())
      })
      asking.on('error', () => resolve()).end(body)
    })
  let left = requests
  const sender = async () => {
    while (left-- > 0) await one()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, sender))
  agent.destroy()
  return statuses
}

if (process.argv[1] === program) {
  process.stdout.write(JSON.stringify(await flood(process.argv[2]!, Number(process.argv[3]))))
}
