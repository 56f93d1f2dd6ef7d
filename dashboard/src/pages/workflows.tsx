import { isMissing } from '../api/client.ts'
import { usePages } from '../api/pages.ts'
import type { WorkflowRecord } from '../api/types.ts'
import { amount } from '../format.ts'
import { Ago, Badge, PageHead } from '../parts/bits.tsx'
import { Empty, Loading, Problem, Unavailable } from '../parts/states.tsx'
import { WindowedList } from '../parts/windowed-list.tsx'
import { Link } from '../router.tsx'

const byId = ({ id }: WorkflowRecord) => id

export function Workflows() {
  const pages = usePages<WorkflowRecord>('/workflows', { limit: 50 }, { id: byId, topics: ['workflow'] })
  return (
    <>
      <PageHead title="Workflows">
        <Link to="/workflows/new" className="button primary">
          New workflow
        </Link>
      </PageHead>
      {pages.loading ? (
        <Loading />
      ) : pages.items.length > 0 ? (
        <WindowedList label="Workflows, newest first" pages={pages} id={byId} rowHeight={[62, 84]}>
          {(workflow) => <Row workflow={workflow} />}
        </WindowedList>
      ) : isMissing(pages.error) ? (
        <Unavailable what="Workflows are" />
      ) : pages.error !== undefined ? (
        <Problem error={pages.error} retry={pages.reload} />
      ) : (
        <Empty title="No workflow yet">
          <p>In a workflow several agents work on one task. You see the cost before the workflow runs.</p>
          <Link to="/workflows/new" className="button primary">
            New workflow
          </Link>
        </Empty>
      )}
    </>
  )
}

function Row({ workflow: { id, name, status, steps, spent, estimate, created_at } }: { workflow: WorkflowRecord }) {
  const done = steps.filter((step) => step.status === 'completed').length
  return (
    <Link to={`/workflows/${id}`} className="row activity-row">
      <span className="row-main">
        <span className="row-title">{name ?? `${steps.length} steps`}</span>
        <span className="row-meta">
          {done} of {steps.length} steps done
        </span>
      </span>
      <span className="row-side">
        <span>
          <Badge state={status} />
        </span>
        <span className="row-meta">
          {amount(spent)} of {amount(estimate)} · <Ago iso={created_at} />
        </span>
      </span>
    </Link>
  )
}
