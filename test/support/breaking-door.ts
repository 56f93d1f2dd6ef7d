import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/**
 * A TCP proxy in front of an HTTP API. It watches requests that begin with `request`. On the first of these requests it
 * breaks the connection when the answer reaches `word`. The client does not get that part.
 */
export async function breakingDoor(apiUrl: string, request: string, word: string) {
  const { hostname, port } = new URL(apiUrl)
  const open = new Set<Socket>()
  let broken = 0
  const server = createServer((client) => {
    const api = connect(Number(port), hostname)
    let breaks = false
    let answer = ''
    for (const socket of [client, api]) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        client.destroy()
        api.destroy()
      })
    }
    client.on('data', (bytes) => {
      breaks ||= broken === 0 && bytes.toString('latin1').startsWith(request)
      api.write(bytes)
    })
    api.on('data', (bytes) => {
      if (breaks) answer += bytes.toString('latin1')
      if (!answer.includes(word)) return client.write(bytes)
      broken++
      return client.destroy()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    broken: () => broken,
    async stop() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
