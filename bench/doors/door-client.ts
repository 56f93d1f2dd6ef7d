import { Client } from 'undici'
import { TASK } from '../paid-call/terms.ts'
import { servePart } from '../part.ts'
import { median } from '../statistics.ts'

export type Comparing = { url: string; agentId: string; model: string; calls: number; warmUp: number }
/** Times of one call, in ms, and how much longer the door takes: the medians. */
export type Compared = { directMs: number; doorMs: number; laterMs: number }

let last = 0

/** Asks the same agent directly and through the OpenAI door, in turns, one call at a time. */
servePart(async () => ({
  ready: {},
  async answer(question) {
    const { url, agentId, model, calls, warmUp } = question as Comparing
    const client = new Client(url)
    const timed = async (path: string, body: object): Promise<number> => {
      const from = performance.now()
      const headers = { 'content-type': 'application/json' }
      const answer = await client.request({ path, method: 'POST', headers, body: JSON.stringify(body) })
      const text = await answer.body.text()
      const ms = performance.now() - from
      if (answer.statusCode !== 200 || !text.includes(TASK)) throw new Error(`status ${answer.statusCode}: ${text}`)
      return ms
    }
    const direct: number[] = []
    const door: number[] = []
    for (let call = 0; call < warmUp + calls; call++) {
      // The door joins equal requests.
      const task = `${++last} ${TASK}`
      const directMs = await timed(`/agents/${agentId}/execute`, { task })
      const doorMs = await timed('/v1/chat/completions', { model, messages: [{ role: 'user', content: task }] })
      if (call < warmUp) continue
      direct.push(directMs)
      door.push(doorMs)
    }
    await client.close()
    const later = door.map((ms, index) => ms - direct[index]!)
    return { directMs: median(direct), doorMs: median(door), laterMs: median(later) } satisfies Compared
  },
}))
