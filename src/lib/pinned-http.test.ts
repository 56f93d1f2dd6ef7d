import { expect, test } from 'vitest'
import { pinnedHttp } from './pinned-http.ts'

const NEVER = new AbortController().signal
const at =
  (...addresses: string[]) =>
  async () =>
    addresses.map((address) => ({ address, family: 4 }))

test.each([
  ['public', ['10.0.0.1'], 'is at 10.0.0.1, no address of the open internet'],
  ['public', ['93.184.215.14', '127.0.0.1'], 'is at 127.0.0.1, no address of the open internet'],
  ['private', ['93.184.215.14'], 'is at 93.184.215.14, an address of the open internet'],
  ['any', [], 'seller.example has no address'],
] as const)(
  'T12 T41 a name that may lead to %s addresses and leads to %j is refused',
  async (reach, addresses, text) => {
    const opened = pinnedHttp('https://seller.example', { reach, resolve: at(...addresses) }, NEVER)
    await expect(opened).rejects.toThrow(text)
  },
)

test('an address in the URL is named once', async () => {
  const opened = pinnedHttp('https://127.0.0.1', { reach: 'public' }, NEVER)
  await expect(opened).rejects.toThrow(/^127\.0\.0\.1 is no address of the open internet$/)
})

test('a lookup that hangs is left', async () => {
  const leaving = new AbortController()
  const resolve = () => new Promise<never>(() => leaving.abort(new Error('left')))
  const opened = pinnedHttp('https://seller.example', { reach: 'public', resolve }, leaving.signal)
  await expect(opened).rejects.toThrow('left')
})
