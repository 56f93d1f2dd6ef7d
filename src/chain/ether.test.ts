import { expect, test } from 'vitest'
import { etherOf } from './ether.ts'

const account = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const ask = (request: () => Promise<unknown>) => etherOf({ request }, account, new AbortController().signal)

test('the ETH of an account is exact decimal text', async () => {
  expect(await ask(async () => '0xde0b6b3a7640001')).toBe('1.000000000000000001')
  expect(await ask(async () => '0x0')).toBe('0')
})

test.each([undefined, null, 'lots', '0x', 5])(
  'an RPC that answers %j says nothing of it, and hides no USDC',
  async (answer) => {
    expect(await ask(async () => answer)).toBeUndefined()
    expect(await ask(() => Promise.reject(new Error('down')))).toBeUndefined()
  },
)
