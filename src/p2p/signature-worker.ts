import { parentPort } from 'node:worker_threads'
import { isGenuine, unpackChecks } from './signature.ts'

/** A thread of the pool. It checks the signatures it gets and answers 1 or 0 for each. */
parentPort?.on('message', (packed: Uint8Array) => {
  parentPort?.postMessage(Uint8Array.from([...unpackChecks(packed)].map((check) => Number(isGenuine(check)))))
})
