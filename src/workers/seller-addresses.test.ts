import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../test/support/until.ts'
import { openWorkshop } from '../../test/support/workshop.ts'
import { CodedError } from '../lib/errors.ts'
import { silentLogger } from '../lib/logger.ts'
import { openSellerAddresses } from './seller-addresses.ts'

const token = { peer: 'seller', addrs: ['/ip4/192.0.2.1/tcp/1'], logger: silentLogger }
const now = ['/ip4/192.0.2.2/tcp/1', '/ip4/192.0.2.3/tcp/1']
const unreachable = new CodedError('PEER_UNREACHABLE', 'nobody answers')

async function file(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-worker-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  return join(dir, 'worker-seller.json')
}

/** The addresses that are dialed while these answer. */
async function dialed(path: string, answering: readonly string[], joined = token): Promise<string[][]> {
  const seller = await openSellerAddresses(path, joined)
  const attempts: string[][] = []
  const attempt = async (addrs: readonly string[]) => {
    attempts.push([...addrs])
    if (!addrs.some((one) => answering.includes(one))) throw unreachable
  }
  await seller.dial(attempt).catch(() => {})
  return attempts
}

test('a worker keeps what its seller told, and dials it after a start, before the addresses of its token', async () => {
  const path = await file()
  expect(await dialed(path, [])).toEqual([token.addrs])
  const seller = await openSellerAddresses(path, token)
  seller.learn(now)
  seller.learn([])
  await until(() => readFile(path, 'utf8').catch(() => ''))
  expect(await dialed(path, now)).toEqual([now])
  expect(await dialed(path, token.addrs)).toEqual([now, token.addrs])
  // A token of another seller.
  expect(await dialed(path, [], { ...token, peer: 'another' })).toEqual([token.addrs])
})

test('a seller that refuses is not dialed at its older addresses', async () => {
  const path = await file()
  const seller = await openSellerAddresses(path, token)
  seller.learn(now)
  // The directory of the test is removed at its end, so nothing may be written then.
  await until(() => readFile(path, 'utf8').catch(() => ''))
  let attempts = 0
  const refused = seller.dial(async () => {
    attempts += 1
    throw new CodedError('PROTOCOL_UNSUPPORTED', 'no')
  })
  await expect(refused).rejects.toMatchObject({ code: 'PROTOCOL_UNSUPPORTED' })
  expect(attempts).toBe(1)
})

test('a file that cannot be read is as good as none', async () => {
  const path = await file()
  await writeFile(path, '{"peer":"seller","addrs":"all"}', { mode: 0o600 })
  expect(await dialed(path, [])).toEqual([token.addrs])
})

test('a connected worker is told when the addresses of its seller change, and once', async () => {
  let addresses = ['/ip4/192.0.2.1/tcp/1']
  const shop = await openWorkshop({ addresses: () => addresses })
  const told: string[] = []
  await shop.worker({ paint: async () => '' }, 1, (addrs) => told.push(addrs.join()))
  addresses = now
  const tell = () => {
    for (const link of shop.pool.links()) link.tellAddresses(addresses)
  }
  tell()
  tell()
  await until(() => told.length === 2)
  expect(told).toEqual(['/ip4/192.0.2.1/tcp/1', now.join()])
})

test('a worker of an earlier version gets no message that it does not know', async () => {
  const shop = await openWorkshop({ addresses: () => now })
  const worker = await shop.peer()
  expect(await worker.join(await shop.invite())).toMatchObject({ type: 'work.welcome', message: { addrs: now } })
  for (const link of shop.pool.links()) link.tellAddresses(['/ip4/192.0.2.9/tcp/1'])
  await shop.door.stop()
  expect(await worker.next()).toMatchObject({ type: 'work.refused' })
})
