import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { type SoldApi, startSoldApi } from './sold-api.ts'
import { type SoldMcp, startSoldMcp } from './sold-mcp.ts'

/** The services that the tests of one file sell, and servers of single tests. */
export function useSoldServices() {
  const stops: (() => void)[] = []
  const services = {} as { mcp: SoldMcp; api: SoldApi }
  beforeAll(async () => {
    services.mcp = await startSoldMcp()
    services.api = await startSoldApi()
  })
  afterAll(async () => {
    await services.mcp?.[Symbol.asyncDispose]()
    await services.api?.[Symbol.asyncDispose]()
  })
  const stopServers = () => {
    for (const stop of stops.splice(0)) stop()
  }
  afterEach(stopServers)

  /** Runs until the end of the test. @returns its address */
  async function serve(listener: RequestListener): Promise<string> {
    const server = createServer(listener)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    stops.push(() => {
      server.closeAllConnections()
      server.close()
    })
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }
  return { services, serve, stopServers }
}
