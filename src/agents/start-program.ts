import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Starts a program without a shell, as the leader of its own process group.
 * @throws the system's error: a missing program, a NUL in an argument, or a limit of files or processes
 */
export async function startProgram(
  [program = '', ...args]: readonly string[],
  env: Record<string, string>,
): Promise<ChildProcessWithoutNullStreams> {
  const child = spawn(program, args, { env, detached: true, stdio: 'pipe' })
  // If no file can be opened, there are no pipes either. Only the event reports the error.
  if (child.pid === undefined) throw (await once(child, 'error'))[0]
  // A signal that cannot be sent must not end the node.
  child.on('error', () => {})
  return child
}

/** Returns true if the machine, not the program, is the reason that it did not start. */
export function isOutOfResources(error: NodeJS.ErrnoException): boolean {
  return ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(error.code ?? '')
}
