import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const demo = new URL('../../devnet/demo.ts', import.meta.url).pathname

test('the demo trades over real processes and a real chain, and ends well only if the money moved', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [demo], {
    env: { PATH: process.env.PATH, NO_COLOR: '1' },
  })
  expect(stdout).toMatch(/result {9,}\S/)
  expect(stdout).toMatch(/payment id {2,}0x[0-9a-f]{64}/)
  expect(stdout).toMatch(/transaction {2,}0x[0-9a-f]{64}/)
  expect(stdout).toContain('buyer balance   100.000000 → 99.990000 USDC')
  expect(stdout).toContain('seller balance  10.000000 → 10.010000 USDC')
})
