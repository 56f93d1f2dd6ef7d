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
      </Badge>
      {' · '}
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

  const nameOf: NameOf = (id) =>
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
          {grouped(tests.tests).map((same, place, all) => (
            <Finding
              key={keyOf(same[0]!)}
              same={same}
              nameOf={nameOf}
              isNewFix={same[0]?.fix !== all[place - 1]?.[0]?.fix}
            />
          ))}
        </ul>
      )}
    </Section>
  )
}

/** What was found at one address, or alike at several of a door. A seller with many agents has two for each. */
function Finding({ same, nameOf, isNewFix }: { same: DoorTest[]; nameOf: NameOf; isNewFix: boolean }) {
  const [one] = same as [DoorTest]
  const addresses = same.map(({ agent_id, url }) => (
    <li key={url}>
      {same.length > 1 && <span>{nameOf(agent_id) ?? 'An agent'}</span>}
      <Id value={url} ends={0} what="address" />
    </li>
  ))
  return (
    <li>
      <Badge state={one.state} tone={tones[one.state]}>
        {words[one.state]}
      </Badge>
      {' · '}
      {titleOf(same, nameOf)}: {ended(one.text)}
      {one.fix !== undefined && isNewFix && <span className="figure-note">What to do: {ended(one.fix)}</span>}
      {same.length === 1 ? (
        <ul className="figure-note">{addresses}</ul>
      ) : (
        <details className="figure-note">
          <summary>{same.length} addresses</summary>
          <ul className="lines tested">{addresses}</ul>
        </details>
      )}
    </li>
  )
}

type NameOf = (agentId: string | undefined) => string | undefined

const keyOf = ({ from, door, state, text, fix }: DoorTest) => JSON.stringify([from, door, state, text, fix])

/** Tests of one door that found the same, in the order of the first of each. */
function grouped(tests: readonly DoorTest[]): DoorTest[][] {
  const groups = new Map<string, DoorTest[]>()
  for (const one of tests) groups.set(keyOf(one), [...(groups.get(keyOf(one)) ?? []), one])
  return [...groups.values()]
}

const doorWords: Record<DoorTest['door'], string> = { libp2p: 'peer to peer', http: 'x402', mcp: 'MCP', a2a: 'A2A' }

function titleOf(same: DoorTest[], nameOf: NameOf): string {
  const [{ door, from, agent_id }] = same as [DoorTest]
  if (from === 'peers') return 'From outside'
  const name = nameOf(agent_id)
  if (same.length > 1) return `${same.length} agents over ${doorWords[door]}`
  return name === undefined ? doorWords[door] : `${name} over ${doorWords[door]}`
}
