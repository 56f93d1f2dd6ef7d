import type { AgentStats, OwnAgent } from '../api/types.ts'
import { count, duration } from '../format.ts'

/** The sums of an agent that nobody has called. */
export function uncalledAgent({ id, name }: Pick<OwnAgent, 'id' | 'name'>): AgentStats {
  return { agent_id: id, name, calls: 0, failed: 0, earned: '0', earned_atomic: '0' }
}

/** Column headings for calls and results, shared by all lists of own agents. */
export function SumHeads({ extra = '' }: { extra?: 'extra' | '' }) {
  return (
    <>
      <th scope="col" className={`number ${extra}`}>
        Calls
      </th>
      <th scope="col" className={`number ${extra}`}>
        Failed
      </th>
      <th scope="col" className="number extra">
        Median
      </th>
      <th scope="col" className="number extra">
        p95
      </th>
      <th scope="col" className="number">
        Earned, USDC
      </th>
    </>
  )
}

/**
 * @param of the sums of an agent; undefined: they are not known, which is not the same as none
 * @param earned formats an amount for its aligned column
 */
export function SumCells({
  of,
  extra = '',
  earned,
}: {
  of: AgentStats | undefined
  extra?: 'extra' | ''
  earned: (amount: string) => string
}) {
  const failed = of?.failed ?? 0
  const known = (sum: number | undefined) => (sum === undefined ? '–' : count(sum))
  return (
    <>
      <td className={`number ${extra}`}>{known(of?.calls)}</td>
      <td className={`number ${extra} ${failed > 0 ? 'bad-text' : ''}`}>{known(of?.failed)}</td>
      <td className="number extra">{duration(of?.p50_ms)}</td>
      <td className="number extra">{duration(of?.p95_ms)}</td>
      <td className="number">{of === undefined ? '–' : earned(of.earned)}</td>
    </>
  )
}
