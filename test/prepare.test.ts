/** What `npm install` leaves to do in a checkout. */
import { readFileSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { dashboardMount } from '../src/http/dashboard.ts'
import { fakeServer } from './support/fake-api.ts'

const top = fileURLToPath(new URL('..', import.meta.url))
const page = join(top, 'dist/dashboard/index.html')
const builtMs = () => statSync(page, { throwIfNoEntry: false })?.mtimeMs ?? 0
const visit = async () => {
  const { app } = fakeServer({ mounts: [dashboardMount()] })
  return (await app.inject({ url: '/dashboard', headers: { host: '127.0.0.1:8424' } })).statusCode
}

test('npm install runs no script of ours, so npm asks nobody to allow one', () => {
  const { scripts } = JSON.parse(readFileSync(join(top, 'package.json'), 'utf8')) as { scripts: object }
  expect(Object.keys(scripts).filter((name) => /^(pre|post)?(install|prepare)$/.test(name))).toEqual([])
})

test('the first visit builds a dashboard that is missing or older than its source, and no other', async () => {
  if (builtMs() > 0) utimesSync(page, 1, 1)
  expect(await visit()).toBe(200)
  const first = builtMs()
  expect(first).toBeGreaterThan(1000)
  expect(await visit()).toBe(200)
  expect(builtMs()).toBe(first)
})
