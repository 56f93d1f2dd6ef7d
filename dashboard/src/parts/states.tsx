import type { ReactNode } from 'react'
import { ApiProblem, isMissing, NodeGone } from '../api/client.ts'
import type { Resource } from '../api/resource.ts'
import { useLedgerAway } from '../api/status.ts'
import { Said } from './said.tsx'

export function Loading({ what = 'Loading' }: { what?: string }) {
  return (
    <p className="state quiet-state" role="status">
      {what}…
    </p>
  )
}

/** An empty list, with what to do next. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <p className="state-title">{title}</p>
      {children !== undefined && <div>{children}</div>}
    </div>
  )
}

export function Unavailable({ what }: { what: string }) {
  return (
    <Empty title={`${what} not available on this node`}>
      The node is older than this dashboard, or runs without this part. Everything else works.
    </Empty>
  )
}

const advice: Record<string, string> = {
  CHAIN_UNAVAILABLE: 'Set a working RPC endpoint with ETHEREUM_RPC_URL or --rpc-url, and restart the node.',
  OVER_BUDGET: 'Raise the budget under Wallet, or wait until the next day or month (UTC).',
  SELLER_UNREACHABLE: 'The seller may be offline. Try again later, or choose another agent under Market.',
  PEER_UNREACHABLE: 'The seller may be offline. Try again later, or choose another agent under Market.',
  RESULT_PENDING: 'The call is paid. The node keeps asking the seller for the result. Nothing is paid twice.',
  OVERLOADED: 'Try again in a moment.',
  UNKNOWN_AGENT: 'Its seller may have taken the agent off the market. Choose another agent under Market.',
}

export function adviceFor(code: string | undefined): string | undefined {
  return code === undefined ? undefined : advice[code]
}

/** An error, with what to do about it. */
export function Problem({ error, retry }: { error: Error; retry?: (() => void) | undefined }) {
  const code = error instanceof ApiProblem ? error.code : undefined
  const title = error instanceof ApiProblem ? error.problem.title : 'No answer'
  const fields = error instanceof ApiProblem ? (error.problem.errors ?? []) : []
  return (
    <div className="state bad" role="alert">
      <p className="state-title">{title}</p>
      <p>
        <Said>{error.message}</Said>
      </p>
      {fields.length > 1 && (
        <ul>
          {fields.map(({ path, message }) => (
            <li key={path + message}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {adviceFor(code) !== undefined && <p>{adviceFor(code)}</p>}
      {error instanceof NodeGone && <p>The page tries again automatically.</p>}
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** A request to a ledger that is away waits with it. */
function Waiting() {
  if (useLedgerAway() === undefined) return <Loading />
  return (
    <p className="state quiet-state" role="status">
      Not known: the ledger cannot be read now.
    </p>
  )
}

/** Shows loaded data, or why it did not load. Old data stays visible while the node is down. */
export function Show<T>({
  of,
  what,
  title,
  children,
}: {
  of: Pick<Resource<T>, 'data' | 'error'> & { reload?: () => void }
  what: string
  /** The page title, if the whole page waits for this data. A page always has a heading. */
  title?: string
  children: (data: T) => ReactNode
}) {
  if (of.data !== undefined && !isMissing(of.error)) return <>{children(of.data)}</>
  const heading = title !== undefined && <h1>{title}</h1>
  if (of.error !== undefined && isMissing(of.error)) {
    return (
      <>
        {heading}
        <Unavailable what={what} />
      </>
    )
  }
  return (
    <>
      {heading}
      {of.error === undefined ? <Waiting /> : <Problem error={of.error} retry={of.reload} />}
    </>
  )
}
