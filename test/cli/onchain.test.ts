import { expect, test } from 'vitest'
import { CodedError } from '../../src/lib/errors.ts'
import { cli, runningNode, useDataDir } from './harness.ts'

const dataDir = useDataDir()
const shared = { agent_id: 'abc', token_id: '0', network: 'eip155:84532', registry: '0x8004', tx_hash: '0x12' }

test('agent register-onchain names the minted token, and the missing ETH', async () => {
  const asked: unknown[] = []
  const registerOnchain = async (...args: unknown[]) => {
    asked.push(args.slice(0, 2))
    return { ...shared, uri: 'data:,', minted: true }
  }
  const { parts } = await runningNode(dataDir(), { registerOnchain })
  const options = { dataDir: dataDir(), parts }
  const run = await cli(['agent', 'register-onchain', '--agent-id', 'abc', '--uri', 'https://a.example'], options)
  expect(run).toMatchObject({ code: 0, stdout: 'minted token 0 of 0x8004 on eip155:84532 (transaction 0x12)\n' })
  expect(asked).toEqual([['abc', { uri: 'https://a.example' }]])
  const poor = await runningNode(dataDir(), {
    registerOnchain: async () => {
      throw new CodedError('WALLET_NO_GAS', 'the wallet 0x1 has 0 ETH on eip155:84532')
    },
  })
  const refused = await cli(['agent', 'register-onchain', '--agent-id', 'abc'], { ...options, parts: poor.parts })
  expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining('has 0 ETH') })
})

test('agent register-onchain reports the second transaction, a file update alone, and what is missing in the file', async () => {
  const run = async (made: object) => {
    const registerOnchain = async () => ({ ...shared, uri: 'data:,', minted: true, ...made })
    const { parts } = await runningNode(dataDir(), { registerOnchain })
    return cli(['agent', 'register-onchain', '--agent-id', 'abc'], { dataDir: dataDir(), parts })
  }
  const twice = await run({ update_tx_hash: '0x34' })
  expect(twice.stdout).toBe(
    'minted token 0 of 0x8004 on eip155:84532 (transaction 0x12)\nwrote the token into the registration file (transaction 0x34)\n',
  )
  const updated = await run({ minted: false, notice: 'set public_url' })
  expect(updated.stdout).toBe('updated the registration file of token 0 of 0x8004 on eip155:84532 (transaction 0x12)\n')
  expect(updated.stderr).toContain('set public_url')
})

test('agent feedback accepts ratings from 0 to 100', async () => {
  const given: unknown[] = []
  const giveFeedback = async (_id: string, feedback: { score: number }) => {
    given.push(feedback)
    return { ...shared, score: feedback.score }
  }
  const { parts } = await runningNode(dataDir(), { giveFeedback })
  const run = (...words: string[]) =>
    cli(['agent', 'feedback', '--agent-id', 'abc', ...words], { dataDir: dataDir(), parts })
  expect((await run('--score', '93.25', '--tag', 'fast')).stdout).toBe(
    'rated token 0: 93.25 of 100 (transaction 0x12)\n',
  )
  expect(given).toEqual([{ score: 93.25, tag1: 'fast' }])
  for (const score of ['101', '-1', '100.5', 'x', '1.234']) expect((await run('--score', score)).code).toBe(2)
  expect((await run()).stderr).toContain('--score is missing')
  expect(given).toHaveLength(1)
})
