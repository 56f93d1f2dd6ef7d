import { randomBytes } from 'node:crypto'

/** The name of a file that will take the place of `path` once it is whole. It tells whose it is: see `draftOwner`. */
export function draftName(path: string): string {
  return `${path}.${process.pid}-${randomBytes(6).toString('hex')}.tmp`
}

/** Of which file a name is a draft, and the process that made it; 0: unknown, of an early version. */
export function draftOwner(name: string): { of: string; pid: number } | undefined {
  const match = /^(.+)\.(?:(\d{1,10})-)?[0-9a-f]{12}\.tmp$/.exec(name)
  return match === null ? undefined : { of: match[1]!, pid: Number(match[2] ?? 0) }
}
