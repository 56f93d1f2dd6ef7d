import { fewPreliminaryAnswers } from './preliminary-answers.ts'
import { loadDispatcher, refusePrivate } from './public-dispatcher.ts'

type PostRequest = { headers: Record<string, string>; body: string; signal: AbortSignal }
/** Sends a text and returns the status. Redirects are not followed. @throws the connection's error */
export type Post = (url: string, request: PostRequest) => Promise<number>

/** Bytes read of an answer before the connection is dropped. */
const ANSWER_BYTES_MAX = 64 * 1024

/**
 * Posts to URLs that others chose. Apart from `http.ts`, which every command loads: node:net takes 4 ms to load.
 *
 * @param reach with `publicOnly` no address of this node's own network is reached (T12)
 */
export function createPost(reach: { publicOnly: boolean }): Post {
  let loaded: Promise<(url: string, request: PostRequest) => Promise<number>> | undefined
  return async (url, request) => {
    refusePrivate(url, reach)
    loaded ??= load(reach)
    return (await loaded)(url, request)
  }
}

async function load(reach: { publicOnly: boolean }) {
  const [{ request }, dispatcher] = await Promise.all([import('undici'), loadDispatcher(reach)])
  return async (url: string, { headers, body, signal }: PostRequest) => {
    const answer = await request(url, { method: 'POST', headers, body, dispatcher, ...fewPreliminaryAnswers(signal) })
    await answer.body.dump({ limit: ANSWER_BYTES_MAX, signal })
    return answer.statusCode
  }
}
