import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readNodeFile, removeNodeFile, writeNodeFile } from './node-file.ts'
import { modeOf } from './secret-file.ts'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'stoa-node-'))
})
afterEach(() => rm(dir, { recursive: true, force: true }))

const node = {
  pid: 123,
  api_url: 'http://127.0.0.1:8424',
  peer_id: '12D3KooWGjMCwLbWmQvNpJhTkWAF1iSHFkJxwiSTcZ1xFGzzzzzz',
  addresses: ['/ip4/127.0.0.1/tcp/4001'],
  started_at: '2026-01-01T00:00:00.000Z',
}

test('a record is read back, replaced and removed', async () => {
  expect(await readNodeFile(dir)).toBeUndefined()
  await writeNodeFile(dir, node)
  expect(await readNodeFile(dir)).toEqual(node)
  const { api_url: _, ...withoutApi } = { ...node, pid: 124 }
  await writeNodeFile(dir, withoutApi)
  expect(await readNodeFile(dir)).toEqual(withoutApi)
  if (process.platform !== 'win32') expect(await modeOf(join(dir, 'node.json'))).toBe(0o600)
  await removeNodeFile(dir)
  await removeNodeFile(dir)
  expect(await readNodeFile(dir)).toBeUndefined()
})

test.each(['', 'null', '{', '{"pid": "1"}', JSON.stringify({ ...node, api_url: 'file:///etc/passwd' })])(
  'a node file that holds %j counts as none',
  async (text) => {
    await writeFile(join(dir, 'node.json'), text)
    expect(await readNodeFile(dir)).toBeUndefined()
  },
)
