import { Suspense, useEffect, useRef, useSyncExternalStore } from 'react'
import { connection } from './api/connection.ts'
import { live } from './api/live.ts'
import { watchApprovals } from './notices.ts'
import { Login } from './pages/login.tsx'
import { Catch } from './parts/catch.tsx'
import { Loading } from './parts/states.tsx'
import { Toasts } from './parts/toasts.tsx'
import { usePath } from './router.tsx'
import { routeOf } from './routes.tsx'
import { Shell } from './shell.tsx'

live.start()
watchApprovals()

export function App() {
  const state = useSyncExternalStore(connection.subscribe, () => connection.state)
  if (state === 'locked') return <Login />
  return (
    <Shell>
      <Room />
      <Toasts />
    </Shell>
  )
}

function Room() {
  const path = usePath()
  const { page, title } = routeOf(path)
  const first = useRef(true)

  useEffect(() => {
    document.title = `${title} · Stoa`
  }, [title])
  // A new page starts at its top for screen readers too.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path is what changes
  useEffect(() => {
    if (!first.current) document.getElementById('main')?.focus({ preventScroll: true })
    first.current = false
  }, [path])

  return (
    <Catch key={path}>
      <Suspense fallback={<Loading />}>{page}</Suspense>
    </Catch>
  )
}
