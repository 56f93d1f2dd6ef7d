import { Link } from '../router.tsx'
import { AgentName, placeOf } from './agent-name.tsx'

/** The agent of a purchase. What was bought from a URL is no agent of the market: it has no page. */
export function AgentLink({ id, name }: { id: string; name?: string | undefined }) {
  const place = placeOf(id)
  if (place !== undefined) {
    return (
      <span className="url" title={id}>
        {place}
      </span>
    )
  }
  return (
    <Link to={`/market/${id}`}>
      <AgentName id={id} name={name} />
    </Link>
  )
}
