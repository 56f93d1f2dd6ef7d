import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { createListener, type RequestHandler } from './listener.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections()
})

const hello: RequestHandler = (_request, response) => void response.end('hello')

async function listen(build: () => Promise<RequestHandler>, onBuildError: (error: unknown) => void = () => {}) {
  const server = createListener(build, onBuildError).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('what answers is built once, with the first request, and all requests are answered', async () => {
  const build = vi.fn(async () => hello)
  const url = await listen(build)
  expect(build).not.toHaveBeenCalled()
  const answers = await Promise.all([fetch(url), fetch(url), fetch(url)])
  expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(['hello', 'hello', 'hello'])
  expect(build).toHaveBeenCalledOnce()
})

test('the body of the first request waits until it can be read', async () => {
  const echo: RequestHandler = (request, response) => void request.pipe(response)
  const url = await listen(async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return echo
  })
  const body = 'x'.repeat(500_000)
  expect(await (await fetch(url, { method: 'POST', body })).text()).toBe(body)
})

test('what cannot be built is told, and answered with 500', async () => {
  const told = vi.fn()
  const url = await listen(() => Promise.reject(new Error('broken')), told)
  const answer = await fetch(url)
  expect(answer.status).toBe(500)
  expect(await answer.json()).toMatchObject({ code: 'INTERNAL', detail: expect.stringContaining('stoa logs') })
  expect(told).toHaveBeenCalledWith(expect.objectContaining({ message: 'broken' }))
})

test('a part of the program that is gone, as after an installation beside a running node, is answered with what to do', async () => {
  const gone = async () => {
    const path = '/nowhere/part.js'
    return (await import(path)) as RequestHandler
  }
  const answer = await fetch(await listen(gone, vi.fn()))
  expect(answer.status).toBe(500)
  expect(await answer.json()).toMatchObject({
    code: 'INTERNAL',
    detail: expect.stringMatching(/replaced or deleted .* start it again/),
  })
})

test('T7 bounds connections and how long a request may arrive, and not how long an agent may run', async () => {
  const server = createListener(
    async () => () => {},
    () => {},
  )
  expect(server.maxConnections).toBe(1024)
  expect(server.headersTimeout).toBe(20_000)
  expect(server.requestTimeout).toBe(120_000)
  expect(server.timeout).toBe(0)
})
