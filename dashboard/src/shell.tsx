import { type ReactNode, useEffect, useState, useSyncExternalStore } from 'react'
import { useWaiting } from './api/approvals.ts'
import { connection } from './api/connection.ts'
import { useLedgerAway } from './api/status.ts'
import { forgetToken, storedToken } from './api/token.ts'
import { ended, sentence } from './format.ts'
import { Header } from './parts/header.tsx'
import { Icon, type Sign } from './parts/icon.tsx'
import { Said } from './parts/said.tsx'
import { Link, usePath } from './router.tsx'
import { chooseTheme, type Theme, useTheme } from './theme.ts'

const rooms = [
  ['/', 'Overview', 'overview'],
  ['/market', 'Market', 'market'],
  ['/agents', 'My agents', 'agents'],
  ['/activity', 'Activity', 'activity'],
  ['/approvals', 'Approvals', 'approvals'],
  ['/payments', 'Payments', 'payments'],
  ['/channels', 'Channels', 'channels'],
  ['/workflows', 'Workflows', 'workflows'],
  ['/sessions', 'Sessions', 'sessions'],
  ['/doors', 'Doors', 'doors'],
  ['/network', 'Network', 'network'],
  ['/machines', 'Machines', 'machines'],
  ['/wallet', 'Wallet', 'wallet'],
  ['/settings', 'Settings', 'settings'],
] as const satisfies readonly (readonly [string, string, Sign])[]

/** The menu entry for pages without their own entry. */
const homes: [RegExp, string][] = [[/^\/(orders|executions)\//, '/activity']]

export function Shell({ children }: { children: ReactNode }) {
  const path = usePath()
  const [open, setOpen] = useState(false)
  const room = homes.find(([pattern]) => pattern.test(path))?.[1] ?? `/${path.split('/')[1] ?? ''}`
  const waiting = useWaiting().data?.items.length ?? 0

  // biome-ignore lint/correctness/useExhaustiveDependencies: going somewhere closes the menu
  useEffect(() => setOpen(false), [path])

  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="bar">
        <Link to="/" className="brand">
          <Mark />
          Stoa
        </Link>
        <button
          type="button"
          className="menu"
          aria-expanded={open}
          aria-controls="rooms"
          onClick={() => setOpen((was) => !was)}
        >
          {open ? 'Close' : 'Menu'}
        </button>
      </header>
      <nav id="rooms" className={open ? 'rooms open' : 'rooms'} aria-label="Pages">
        <ul>
          {rooms.map(([to, name, sign]) => (
            <li key={to}>
              <Link to={to} aria-current={to === room ? 'page' : undefined}>
                <Icon sign={sign} />
                {name}
                {to === '/approvals' && waiting > 0 && (
                  <span className="count">
                    {waiting}
                    <span className="hidden"> waiting</span>
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
        <div className="foot">
          <ThemeChoice />
          {storedToken() !== undefined && (
            <button
              type="button"
              className="quiet"
              onClick={() => {
                forgetToken()
                connection.refused()
              }}
            >
              Log out
            </button>
          )}
        </div>
      </nav>
      <div className="content">
        <div className="over">
          <Header />
          <ConnectionBar />
          <LedgerBar />
        </div>
        <main id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
    </div>
  )
}

function ConnectionBar() {
  const state = useSyncExternalStore(connection.subscribe, () => connection.state)
  return (
    <div role="status" className="connection">
      {state === 'lost' && (
        <p>
          <span>
            <strong>Connection lost. Retrying.</strong> The page shows old data. If the node is stopped, start it with{' '}
            <code>stoa start</code>.
          </span>
          <button type="button" onClick={() => connection.retry()}>
            Try now
          </button>
        </p>
      )}
    </div>
  )
}

/** On every page: figures that are old must not pass for those of now. */
function LedgerBar() {
  const reason = useLedgerAway()
  return (
    <div role="status" className="connection">
      {reason !== undefined && (
        <p>
          <span>
            <strong>The ledger cannot be read now.</strong> <Said>{ended(sentence(reason))}</Said> What you see was
            known before. Nothing is bought or sold until it can be read again.
          </span>
          <Link to="/machines" className="button">
            See the machines
          </Link>
        </p>
      )}
    </div>
  )
}

function ThemeChoice() {
  const theme = useTheme()
  return (
    <label className="theme">
      Theme
      <select value={theme} onChange={(event) => chooseTheme(event.target.value as Theme)}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  )
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <path
        fill="currentColor"
        d="M16 3 3 10v3h26v-3zM5 15h3v10H5zm6.300 0h3v10h-3zm6.400 0h3v10h-3zM24 15h3v10h-3zM3 26h26v3H3z"
      />
    </svg>
  )
}
