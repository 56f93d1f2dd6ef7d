import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../lib/logger.ts'
import { openDatabases } from './databases.ts'

test('T33 a ledger that is restored without its identity says whose it was, at the first start', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-identity-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  const warned: string[] = []
  const logger = { ...silentLogger, warn: (_fields: object, text: string) => void warned.push(text) }
  async function start(seller: string): Promise<string[]> {
    warned.length = 0
    const databases = await openDatabases(dir, { logger, url: undefined })
    await databases.claim({ seller, wallet: '0xA1', network: 'eip155:84532' })
    await databases.close()
    return [...warned]
  }
  expect(await start('first')).toEqual([])
  expect(await start('first')).toEqual([])
  expect(await start('second')).toEqual([
    expect.stringMatching(/was last used by first.*is second now.*identity\.key of first back/),
  ])
  expect(await start('second')).toEqual([])
  expect(await start('first')).toHaveLength(1)
})
