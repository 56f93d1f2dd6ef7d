import { expect, test } from 'vitest'
import { availableModels } from './available-models.ts'

const stop = new AbortController().signal
const answer = (body: object, status = 200) => new Response(JSON.stringify(body), { status })

test('models are asked of the servers whose key or address is known, and named as an agent names them', async () => {
  const asked: string[] = []
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    asked.push(`${url} ${new Headers(init?.headers).get('authorization')}`)
    if (String(url).startsWith('http://127.0.0.1:11434')) throw new TypeError('fetch failed')
    return answer({ data: [{ id: 'Qwen/Qwen3-8B' }] })
  }
  const keys = { openai: 'k', openaiBaseUrl: 'http://127.0.0.1:8000/v1', anthropic: 'secret' }
  expect(await availableModels({ keys, fetch }, stop)).toMatchObject({
    servers: [
      { provider: 'openai-compatible', url: 'http://127.0.0.1:8000/v1', models: ['openai-compatible/Qwen/Qwen3-8B'] },
    ],
    default: expect.stringMatching(/^anthropic\//),
  })
  expect(asked.sort()).toEqual(['http://127.0.0.1:11434/v1/models null', 'http://127.0.0.1:8000/v1/models Bearer k'])
})

test('T21: a server that refuses is shown with why, and neither key nor password with it', async () => {
  const fetch = async () => answer({}, 404)
  const keys = { openai: 'key-of-mine', openaiBaseUrl: 'http://me:password@127.0.0.1:8000/v1' }
  const found = await availableModels({ keys, fetch }, stop)
  expect(found.servers).toMatchObject([{ models: [], problem: expect.stringContaining('it answers 404') }])
  expect(JSON.stringify(found)).not.toMatch(/password|key-of-mine/)
})

test('without a key or an address there is what needs neither', async () => {
  const fetch = async () => Promise.reject(new TypeError('fetch failed'))
  const found = await availableModels({ keys: {}, fetch }, stop)
  expect(found.servers).toEqual([])
  expect(found.builtin.map(({ model }) => model)).toContain('builtin/summarize')
})
