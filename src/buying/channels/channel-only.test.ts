import { expect, test } from 'vitest'
import type { Terms } from '../guard.ts'
import type { ChannelLine } from './channel-line.ts'
import { type ChannelNeed, payOnNeeded } from './channel-only.ts'

test('a call that waits for its deposit counts as one call, and keeps its own wish', async () => {
  const looks: [wish: string | undefined, need: ChannelNeed][] = []
  const line = {} as ChannelLine
  const lines = {
    lineFor(_: Terms, wish: string | undefined, __: unknown, need: ChannelNeed) {
      looks.push([wish, need])
      return looks.length === 3 ? line : undefined
    },
    obstacle: () => undefined,
    failure: () => undefined,
  }
  const asked = { terms: {} as Terms, wish: undefined }
  const pay = async (paying: ChannelLine) => paying
  expect(await payOnNeeded(asked, pay, lines, new AbortController().signal)).toBe(line)
  expect(looks).toEqual([
    [undefined, 'first'],
    [undefined, 'again'],
    [undefined, 'again'],
  ])
})
