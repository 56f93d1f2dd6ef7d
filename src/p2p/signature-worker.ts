import { parentPort } from 'node:worker_threads'
import { isGenuine, unpackChecks } from './signature.ts'

/** A thread of the pool: checks what it is given, and answers with a 1 or a 0 for each. */
parentPort?.on('message', (packed: Uint8Array) => {
  parentPort?.postMessage(Uint8Array.from([...unpackChecks(packed)].map((check) => Number(isGenuine(check)))))
})
