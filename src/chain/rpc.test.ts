import { describe, expect, it } from 'vitest'
import { createRpc, RpcRefusal } from './rpc.ts'

const URL_WITH_KEY = 'https://rpc.example/v2/SECRET-API-KEY'

/** An RPC whose transport is a function. */
function rpcOf(answer: (url: string, init: RequestInit) => Response | Promise<Response>, url = URL_WITH_KEY) {
  const fetchStub = (async (input: string, init: RequestInit) => answer(input, init)) as typeof fetch
  return createRpc({ url, timeoutMs: 50 }, { fetch: fetchStub })
}

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status })
const errorAnswer = (message: string, status = 200) =>
  json({ jsonrpc: '2.0', id: 1, error: { code: -32_000, message } }, status)

describe('createRpc', () => {
  it('posts a JSON-RPC call and gives its result back', async () => {
    let seen: unknown
    const rpc = rpcOf((_, init) => {
      seen = JSON.parse(init.body as string)
      return json({ jsonrpc: '2.0', id: 1, result: '0x1' })
    })
    expect(await rpc.call('eth_chainId', [])).toBe('0x1')
    expect(seen).toEqual({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] })
  })

  it('gives null back as a result', async () => {
    expect(await rpcOf(() => json({ result: null })).call('eth_getTransactionReceipt', [])).toBeNull()
  })

  it('sends credentials of the URL as a header', async () => {
    let seen: [string, RequestInit['headers']] | undefined
    const rpc = rpcOf((url, init) => {
      seen = [url, init.headers]
      return json({ result: '0x1' })
    }, 'https://me:p%40ss@rpc.example/')
    await rpc.call('eth_chainId', [])
    expect(seen).toEqual(['https://rpc.example/', expect.objectContaining({ authorization: 'Basic bWU6cEBzcw==' })])
  })

  it.each([
    [
      'an error answer',
      () => errorAnswer('execution reverted'),
      'the RPC refuses eth_call (-32000): execution reverted',
    ],
    ['an error answer under HTTP 400', () => errorAnswer('range too wide', 400), 'range too wide'],
  ])('throws RpcRefusal for %s', async (_, answer, message) => {
    const call = rpcOf(answer).call('eth_call', [])
    await expect(call).rejects.toThrow(RpcRefusal)
    await expect(call).rejects.toMatchObject({ code: 'CHAIN_UNAVAILABLE', message: expect.stringContaining(message) })
  })

  it.each([
    ['429 with an error body', () => errorAnswer('slow down', 429), 'slow down'],
    ['429 without', () => new Response('', { status: 429 }), 'limits our requests'],
    ['500', () => new Response('<html>', { status: 500 }), 'HTTP 500'],
    ['a redirect', () => new Response('', { status: 301, headers: { location: 'https://evil.example' } }), 'redirects'],
    ['a web page', () => new Response('<html>welcome</html>'), 'does not speak JSON-RPC'],
    ['nothing', () => new Response(''), 'does not speak JSON-RPC'],
    ['an array', () => json([{ result: '0x1' }]), 'does not speak JSON-RPC'],
    ['an object without result', () => json({ jsonrpc: '2.0' }), 'does not speak JSON-RPC'],
    ['a result only in the prototype', () => new Response('{"__proto__":{"result":"0x1"}}'), 'does not speak JSON-RPC'],
    ['five megabytes', () => new Response('x'.repeat(5 * 1024 * 1024)), 'longer than'],
  ])('throws CHAIN_UNAVAILABLE, no refusal, for %s', async (_, answer, message) => {
    const error = await rpcOf(answer)
      .call('eth_call', [])
      .catch((thrown: unknown) => thrown)
    expect(error).not.toBeInstanceOf(RpcRefusal)
    expect(error).toMatchObject({ code: 'CHAIN_UNAVAILABLE', message: expect.stringContaining(message) })
  })

  it('says what failed of a connection, with neither URL nor key, nor a cause that holds them (T21)', async () => {
    const failure = () => {
      throw new TypeError(`fetch ${URL_WITH_KEY} failed`, {
        cause: Object.assign(new Error(`connect ${URL_WITH_KEY}`), { code: 'ECONNREFUSED' }),
      })
    }
    const error = (await rpcOf(failure)
      .call('eth_call', [])
      .catch((thrown: unknown) => thrown)) as Error
    expect(error.message).toBe('the RPC cannot be reached (ECONNREFUSED): check ETHEREUM_RPC_URL (--rpc-url)')
    expect(error.cause).toBeUndefined()
  })

  it('takes the key out of what the RPC says (T21)', async () => {
    const call = rpcOf(() => errorAnswer(`no credit at ${URL_WITH_KEY} for SECRET-API-KEY`)).call('eth_call', [])
    await expect(call).rejects.toThrow('no credit at [url] for [key]')
  })

  it('gives up after the time limit, also in the middle of a body', async () => {
    const hang = (signal: AbortSignal | null | undefined) =>
      new Promise<Response>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
    await expect(rpcOf((_, init) => hang(init.signal)).call('eth_call', [])).rejects.toThrow(
      'no answer to eth_call within 50 ms',
    )
    const stalled = (init: RequestInit) =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('{"result":'))
            init.signal?.addEventListener('abort', () => controller.error(init.signal?.reason))
          },
        }),
      )
    await expect(rpcOf((_, init) => stalled(init)).call('eth_call', [])).rejects.toThrow('within 50 ms')
  })

  it("throws the caller's own reason when the caller gives up", async () => {
    const controller = new AbortController()
    const rpc = rpcOf((_, init) => {
      controller.abort(new Error('stopping'))
      return Promise.reject(init.signal?.reason)
    })
    await expect(rpc.call('eth_call', [], controller.signal)).rejects.toThrow('stopping')
    await expect(rpc.call('eth_call', [], controller.signal)).rejects.toThrow('stopping')
  })

  it.each(['', 'not a url', 'ws://127.0.0.1:8545', 'file:///etc/passwd'])(
    'refuses the address %j at the first call',
    async (url) => {
      const rpc = rpcOf(() => json({ result: '0x1' }), url)
      await expect(rpc.call('eth_call', [])).rejects.toThrow('not an http(s) URL')
    },
  )
})
