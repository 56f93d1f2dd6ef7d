import type { AgentStats } from '../api/types.ts'
import { count, duration } from '../format.ts'

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

/** @param earned formats an amount for its aligned column */
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
  return (
    <>
      <td className={`number ${extra}`}>{count(of?.calls ?? 0)}</td>
      <td className={`number ${extra} ${failed > 0 ? 'bad-text' : ''}`}>{count(failed)}</td>
      <td className="number extra">{duration(of?.p50_ms)}</td>
      <td className="number extra">{duration(of?.p95_ms)}</td>
      <td className="number">{earned(of?.earned ?? '0')}</td>
    </>
  )
}
