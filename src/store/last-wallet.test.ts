import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from './database.ts'
import { noteWallet } from './last-wallet.ts'

let database: Database
beforeEach(() => {
  database = openDatabase({ path: ':memory:' })
})
afterEach(() => database.close())

test('the wallet before is known from the first start with another one, until the node goes back to it', async () => {
  const seen = []
  for (const wallet of ['0xA1', '0xa1', '0xB2', '0xb2', '0xa1', '0xA1', '0xb2', '0xC3']) {
    seen.push([wallet, await noteWallet(database, wallet)])
  }
  expect(seen).toEqual([
    ['0xA1', undefined],
    ['0xa1', undefined],
    ['0xB2', { wallet: '0xA1', isNew: true }],
    ['0xb2', { wallet: '0xA1', isNew: false }],
    ['0xa1', undefined],
    ['0xA1', undefined],
    ['0xb2', { wallet: '0xa1', isNew: true }],
    ['0xC3', { wallet: '0xb2', isNew: true }],
  ])
})
