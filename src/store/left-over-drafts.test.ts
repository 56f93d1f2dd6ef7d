import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeLeftOverDrafts } from './left-over-drafts.ts'

test('drafts of keys that a killed process left go at the next start; those of a living one, and other files, stay', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'stoa-drafts-'))
  const dead = 4_000_000
  const leftOver = [
    `identity.key.${dead}-00112233aabb.tmp`,
    `wallet.key.${process.pid}-00112233aabb.tmp`,
    'wallet.key.00112233aabb.tmp',
    `.agents.yaml.${dead}-00112233aabb.tmp`,
    `.probe.${dead}-00112233aabb.tmp`,
  ]
  const kept = [`wallet.key.${process.ppid}-00112233aabb.tmp`, 'notes.00112233aabb.tmp', 'wallet.key', 'wallet.key.tmp']
  for (const name of [...leftOver, ...kept]) await writeFile(join(dir, name), 'x')
  await removeLeftOverDrafts(dir)
  expect((await readdir(dir)).sort()).toEqual(kept.sort())
  await rm(dir, { recursive: true })
})
