import { expect, test } from 'vitest'
import { openDatabase } from './database.ts'
import { readCopied, readMet, writeCopied, writeMet } from './ledger-home.ts'
import { claimLedger, giveLedger } from './ledger-owner.ts'

const owner = { seller: '12D3KooWseller', wallet: '0xAbCd', network: 'eip155:84532' }
const server = 'db.example:5432/stoa'

test('the first node owns the ledger of a database, and comes back', async () => {
  const database = openDatabase({ path: ':memory:' })
  await claimLedger(database, owner, server)
  await claimLedger(database, { ...owner, wallet: '0xabcd' }, server)
})

test.each([
  [{ seller: '12D3KooWother' }, /at db\.example:5432\/stoa belongs to the seller 12D3KooWseller.*identity\.key/],
  [{ wallet: '0x1111' }, /belongs to the wallet 0xAbCd, and the wallet of this node is 0x1111.*wallet\.key/],
  [{ network: 'eip155:8453' }, /on eip155:84532, and this node pays on eip155:8453.*NODE_NETWORK=eip155:84532/],
])('another node (%o) is refused and learns what to do', async (other, message) => {
  const database = openDatabase({ path: ':memory:' })
  await claimLedger(database, owner, server)
  const refused = claimLedger(database, { ...owner, ...other }, server)
  await expect(refused).rejects.toMatchObject({ code: 'LEDGER_OF_ANOTHER', message: expect.stringMatching(message) })
})

test('the operator gives a ledger to another node, which then counts as the only one', async () => {
  const database = openDatabase({ path: ':memory:' })
  await claimLedger(database, owner, server)
  await writeMet(database, 1)
  await writeCopied(database, './seller')
  const next = { ...owner, wallet: '0x1111' }
  await giveLedger(database, next)
  await claimLedger(database, next, server)
  await expect(claimLedger(database, owner, server)).rejects.toMatchObject({ code: 'LEDGER_OF_ANOTHER' })
  expect([await readMet(database), await readCopied(database)]).toEqual([undefined, undefined])
})
