/** What tests share and what takes seconds to make: made once in a run, when the first test asks for it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Lets test files ask for what `make` makes. Runs in the process that runs the tests.
 *
 * @param make resolves with what the tests are told, as JSON, and with how to undo it
 * @returns the Unix socket to ask at, and what to do after all tests
 */
export async function offerOnce<T>(make: () => Promise<{ told: T; undo: () => void | Promise<void> }>) {
  const dir = mkdtempSync(join(tmpdir(), 'stoa-tests-'))
  const path = join(dir, 'ask')
  let making: ReturnType<typeof make> | undefined
  const asked = createServer((socket) => {
    socket.on('error', () => {})
    making ??= make()
    making.then(
      ({ told }) => socket.end(JSON.stringify({ told })),
      (error) => socket.end(JSON.stringify({ error: String(error) })),
    )
  })
  await new Promise<void>((resolve) => asked.listen(path, resolve))
  asked.unref()
  return {
    path,
    async end(): Promise<void> {
      asked.close()
      await making?.then(
        ({ undo }) => undo(),
        () => {},
      )
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Asks the process that runs the tests, from a test. @param path of `offerOnce` */
export async function askOnce<T>(path: string): Promise<T> {
  let text = ''
  for await (const chunk of connect(path).setEncoding('utf8')) text += chunk
  const answer = JSON.parse(text) as { told: T } | { error: string }
  if ('error' in answer) throw new Error(`a test asked for what could not be made: ${answer.error}`)
  return answer.told
}
