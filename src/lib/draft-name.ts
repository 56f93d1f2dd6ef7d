import { randomBytes } from 'node:crypto'

/** A draft file that replaces `path` when it is complete. Its name has this process's pid: see `draftOwner`. */
export function draftName(path: string): string {
  return `${path}.${process.pid}-${randomBytes(6).toString('hex')}.tmp`
}

/** Returns the file that a draft belongs to, and the process that made it. Pid 0: unknown, from an early version. */
export function draftOwner(name: string): { of: string; pid: number } | undefined {
  const match = /^(.+)\.(?:(\d{1,10})-)?[0-9a-f]{12}\.tmp$/.exec(name)
  return match === null ? undefined : { of: match[1]!, pid: Number(match[2] ?? 0) }
}
