import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'stoa.theme'
const listeners = new Set<() => void>()
const media = matchMedia('(prefers-color-scheme: dark)')
media.addEventListener('change', notify)

function notify() {
  for (const listener of [...listeners]) listener()
}

function chosen(): Theme {
  const stored = localStorage.getItem(KEY)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

export function applyTheme(): void {
  const theme = chosen()
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

export function chooseTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  applyTheme()
  notify()
}

function subscribe(listener: () => void) {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, chosen)
}

/** True if the page is dark, by the user's choice or the system's. */
export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, () => {
    const theme = chosen()
    return theme === 'dark' || (theme === 'system' && media.matches)
  })
}
