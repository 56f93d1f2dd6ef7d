import { useEffect, useState } from 'react'
import { call } from '../api/client.ts'
import type { Listing } from '../api/types.ts'
import { short } from '../format.ts'

const NAMES_MAX = 500
const names = new Map<string, Promise<string | undefined>>()

function nameOf(id: string): Promise<string | undefined> {
  const known = names.get(id)
  if (known !== undefined) return known
  if (names.size >= NAMES_MAX) names.clear()
  const name = call<Listing>(`/agents/${encodeURIComponent(id)}`).then(
    (listing) => listing.name,
    () => undefined,
  )
  names.set(id, name)
  return name
}

/** Host and path, if this is the URL of a seller over HTTP, which orders know as their agent. */
export function placeOf(id: string): string | undefined {
  return /^https?:\/\/(.+)$/.exec(id)?.[1]
}

/** The name of an agent on the market, a short form of its identifier, or the place of a URL. */
export function AgentName({ id, name: known }: { id: string; name?: string | undefined }) {
  const name = placeOf(id) ?? known
  const [found, setFound] = useState<{ id: string; name: string | undefined }>()
  useEffect(() => {
    let isGone = false
    if (name === undefined) {
      void nameOf(id).then((text) => {
        if (!isGone) setFound({ id, name: text })
      })
    }
    return () => {
      isGone = true
    }
  }, [id, name])
  return <>{name ?? (found?.id === id ? found.name : undefined) ?? short(id)}</>
}
