import { useEffect, useRef, useState } from 'react'
import { call } from '../api/client.ts'
import type { Doors, DoorTests } from '../api/types.ts'
import { ended } from '../format.ts'
import { Ago, Badge, Id, Section, type Tone } from './bits.tsx'
import { Empty, Problem } from './states.tsx'

type DoorTest = DoorTests['tests'][number]

const tones: Record<DoorTest['state'], Tone> = { ok: 'good', warn: 'warn', fail: 'bad', skip: 'plain' }
const words: Record<DoorTest['state'], string> = { ok: 'works', warn: 'to check', fail: 'broken', skip: 'not tested' }
/** An older test says little about now. */
const OLD_MS = 10 * 60 * 1000

/** What the last test found at the address that is shown. */
export function TestMark({ tests, door, agentId }: { tests: DoorTests | undefined; door: string; agentId: string }) {
  const found = tests?.tests.find(
    (one) => one.door === door && (one.agent_id ?? agentId) === agentId && one.from === 'here',
  )
  if (tests === undefined || found === undefined) return <p className="hint">Not tested yet.</p>
  return (
    <p className="hint">
      <Badge state={found.state} tone={tones[found.state]}>
        {words[found.state]}
      </Badge>{' '}
      Tested <Ago iso={tests.at} />, from this node: {ended(found.text)}
    </p>
  )
}

/** All tests, what to do about each, and a button to test now. The page tests by itself if the last test is old. */
export function TestRuns({ known: { tests, doors }, onTested }: { known: Doors; onTested(): void }) {
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const isTried = useRef(false)

  async function test() {
    setBusy(true)
    setError(undefined)
    try {
      await call<DoorTests>('/doors/test', { method: 'POST' })
      onTested()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each visit of the page
  useEffect(() => {
    const isOld = tests === undefined || Date.now() - Date.parse(tests.at) > OLD_MS
    if (isTried.current || !isOld) return
    isTried.current = true
    void test()
  }, [])

  const nameOf = (id: string | undefined) =>
    doors.flatMap(({ agents }) => agents).find(({ agent_id }) => agent_id === id)?.agent_name
  return (
    <Section
      title="Tests"
      aside={
        <button type="button" disabled={busy} onClick={() => void test()}>
          {busy ? 'Testing…' : 'Test now'}
        </button>
      }
    >
      <p className="hint">
        The node asks its own addresses as a client would. It pays nothing and runs no agent.
        {tests !== undefined && (
          <>
            {' '}
            Last time: <Ago iso={tests.at} />.
          </>
        )}
      </p>
      {error !== undefined && <Problem error={error} retry={() => void test()} />}
      {tests === undefined ? (
        error === undefined && <Empty title={busy ? 'The addresses are being tested' : 'Not tested yet'} />
      ) : (
        <ul className="lines door-tests">
          {tests.tests.map((one, place) => (
            <li key={`${one.from} ${one.door} ${one.url}`}>
              <Badge state={one.state} tone={tones[one.state]}>
                {words[one.state]}
              </Badge>{' '}
              {titleOf(one, nameOf(one.agent_id))}: {ended(one.text)}
              {one.fix !== undefined && one.fix !== tests.tests[place - 1]?.fix && (
                <span className="figure-note">What to do: {ended(one.fix)}</span>
              )}
              <span className="figure-note">
                <Id value={one.url} ends={0} what="address" />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}

const doorWords: Record<DoorTest['door'], string> = { libp2p: 'peer to peer', http: 'x402', mcp: 'MCP', a2a: 'A2A' }

function titleOf({ door, from }: DoorTest, name: string | undefined): string {
  if (from === 'peers') return 'From outside'
  return name === undefined ? doorWords[door] : `${name} over ${doorWords[door]}`
}
