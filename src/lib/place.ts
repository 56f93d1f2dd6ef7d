import { hostname } from 'node:os'

/** Where this process runs, for people. */
export function thisPlace(): string {
  return `${hostname()}, process ${process.pid}`
}

/** The machine of such a place. */
export function machineOf(place: string): string {
  return place.replace(/, process \d+$/, '')
}
