import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'

/**
 * Starts a program that leads a process group of its own, with pipes for its input and output. No shell reads the command.
 *
 * @throws the system's error: a missing program, a NUL in an argument, or a limit of files or processes
 */
export async function startProgram(
  [program = '', ...args]: readonly string[],
  env: Record<string, string>,
): Promise<ChildProcessWithoutNullStreams> {
  const child = spawn(program, args, { env, detached: true, windowsHide: true, stdio: 'pipe' })
  // Where no file can be opened any more there are no pipes either: only the event says so.
  if (child.pid === undefined) throw (await once(child, 'error'))[0]
  // A signal that cannot be sent is no reason to end the node.
  child.on('error', () => {})
  return child
}

/** Whether the machine, not the program, is why it could not be started. */
export function isOutOfResources(error: NodeJS.ErrnoException): boolean {
  return ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(error.code ?? '')
}
