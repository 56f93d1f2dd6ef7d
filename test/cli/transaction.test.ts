import { expect, test } from 'vitest'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const hash = `0x${'ab'.repeat(32)}`

test('waiting transactions are listed, replaced and abandoned by hash', async () => {
  const asked: unknown[] = []
  const { parts } = await runningNode(dataDir(), {
    transactions: async () => [
      {
        ...{ tx_hash: hash, purpose: 'register abc', network: 'eip155:84532' },
        ...{ account: '0x1', account_nonce: 7, to: '0x2' },
      },
    ],
    changeTransaction: async (...args: unknown[]) => {
      asked.push(args.slice(0, 2))
      return { tx_hash: '0x12' }
    },
  })
  const run = (...words: string[]) => cli(['transaction', ...words], { dataDir: dataDir(), parts })
  expect((await run('list')).stdout).toContain(`register abc`)
  expect(await run('replace', hash)).toMatchObject({ code: 0, stdout: 'mined: 0x12\n' })
  expect(await run('abandon', hash)).toMatchObject({ code: 0 })
  expect(asked).toEqual([
    [hash, 'replace'],
    [hash, 'abandon'],
  ])
  expect((await run('abandon')).code).toBe(2)
  const noHash = { code: 2, stderr: expect.stringMatching(/^error: a transaction hash is 0x and 64 hex digits/m) }
  expect(await run('replace', 'nope')).toMatchObject(noHash)
  expect(asked).toHaveLength(2)
})
