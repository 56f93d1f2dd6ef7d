import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Readable } from 'node:stream'
import { GatheredBytes } from '../lib/gathered-bytes.ts'
import type { Logger } from '../lib/logger.ts'
import { commandEnvironment } from './command-environment.ts'
import { type ProcessGroup, processGroup } from './process-group.ts'
import { type AgentCall, AgentError, type AgentRuntime, type OnOutput, outputTooLarge, runCanceled } from './runtime.ts'
import { isOutOfResources, startProgram } from './start-program.ts'

/** Bytes of a program's stderr kept for the log: the last ones. */
const STDERR_BYTES_MAX = 8 * 1024
/** After the exit, output counts as ended after this much silence, if another process still holds it open. */
const QUIET_MS = 1000
const MORE_RESOURCES =
  'the system has no files or processes left; raise its limits (ulimit -n, ulimit -u) or let fewer runs go at once'

type CommandOptions = {
  name: string
  /** The program and its arguments. They are not passed to a shell. */
  command: readonly string[]
  outputBytesMax: number
  readEnv(name: string): string | undefined
}

/** `whole`: standard output has ended, so the output is complete. */
type ProcessEnd = { status: number | null; signal: NodeJS.Signals | null; whole: boolean }

/**
 * An agent that is a program. Reads the task from stdin and writes the result to stdout; one final line break is
 * dropped. Exit status 0 means success. The whole process group of the program ends with the task.
 */
export function commandRuntime(options: CommandOptions, deps: { logger: Logger }): AgentRuntime {
  const logger = deps.logger.child({ agent_name: options.name })
  const env = commandEnvironment(options.readEnv)
  return {
    // Not the program: its name and arguments are private to the seller.
    model: 'command',
    run: (call) => runProgram(options, env, call, logger),
  }
}

async function runProgram(
  { command, outputBytesMax }: CommandOptions,
  env: Record<string, string>,
  { input, signal, onOutput }: AgentCall,
  logger: Logger,
): Promise<string> {
  if (signal.aborted) throw runCanceled()
  const child = await startProgram(command, env).catch((error: NodeJS.ErrnoException) => {
    throw unstarted(error, command, logger)
  })
  const group = processGroup(child, { lingers: true })
  signal.addEventListener('abort', group.stop, { once: true })
  if (signal.aborted) group.stop()
  try {
    const stdout = collect(child.stdout, outputBytesMax, group.kill)
    if (onOutput !== undefined) child.stdout.on('data', decoding(onOutput))
    const stderr = collectTail(child.stderr, STDERR_BYTES_MAX)
    // A program may ignore its task, so EPIPE is not a failure.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const ended = await end(child, group, signal)
    if (signal.aborted) throw runCanceled()
    if (stdout.isOver()) throw outputTooLarge(outputBytesMax)
    if (ended.status !== 0) throw failed(ended, stderr(), logger)
    if (!ended.whole) throw unfinished(logger)
    return new TextDecoder().decode(stdout.bytes()).replace(/\r?\n$/, '')
  } finally {
    signal.removeEventListener('abort', group.stop)
    group.kill()
  }
}

/**
 * Resolves when the program has exited and its output is complete, or when no more output can come. Its child processes
 * may still forward output (`exec > >(tee log)`), and are killed only after a silence. A process outside the group can
 * keep the output open. Then the output counts as incomplete.
 */
function end(child: ChildProcessWithoutNullStreams, group: ProcessGroup, task: AbortSignal): Promise<ProcessEnd> {
  const { promise, resolve } = Promise.withResolvers<ProcessEnd>()
  let quiet: NodeJS.Timeout | undefined
  let heard = 0
  let whole = false
  child.stdout.on('data', (chunk: Buffer) => {
    heard += chunk.length
  })
  child.stdout.once('end', () => {
    whole = true
  })
  child.once('exit', (status, signal) => {
    let isKilled = false
    const wait = () => {
      const before = heard
      // If the event loop was blocked, unread output is seen only after one more poll, before `setImmediate`.
      quiet = setTimeout(() => setImmediate(judge, before), QUIET_MS)
    }
    const judge = (before: number) => {
      const mayComplete = !whole && !task.aborted
      if (mayComplete && heard > before) return wait()
      if (mayComplete && !isKilled) {
        isKilled = true
        group.kill()
        return wait()
      }
      child.stdout.destroy()
      child.stderr.destroy()
      resolve({ status, signal, whole })
    }
    wait()
  })
  child.once('close', (status, signal) => {
    clearTimeout(quiet)
    resolve({ status, signal, whole })
  })
  return promise
}

/** Collects output up to a limit. Calls `onOver` at the first byte beyond it. */
function collect(stream: Readable, bytesMax: number, onOver: () => void) {
  const read = new GatheredBytes()
  let isOver = false
  stream.on('data', (chunk: Buffer) => {
    if (isOver) return
    isOver = read.length + chunk.length > bytesMax
    if (isOver) onOver()
    else read.add(chunk)
  })
  return { isOver: () => isOver, bytes: () => read.bytes() }
}

/** A character may be split between two chunks. */
function decoding(onOutput: OnOutput): (chunk: Buffer) => void {
  const decoder = new TextDecoder()
  return (chunk) => onOutput(decoder.decode(chunk, { stream: true }))
}

function collectTail(stream: Readable, bytesMax: number): () => string {
  let tail = Buffer.alloc(0)
  stream.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-bytesMax)
  })
  return () => tail.toString('utf8').trim()
}

function unstarted(error: NodeJS.ErrnoException, command: readonly string[], logger: Logger): AgentError {
  if (isOutOfResources(error)) {
    logger.error(
      { path: command[0], status: error.code ?? error.name },
      `the agent's program cannot be started: ${MORE_RESOURCES}`,
    )
    return new AgentError(
      'AGENT_FAILED',
      "the agent's machine has too much to do to start its program; try again later",
    )
  }
  logger.error({ path: command[0], status: error.code ?? error.name }, "the agent's program cannot be started")
  return new AgentError('AGENT_NOT_RUNNABLE', "the agent's program cannot be started: its seller must check `command`")
}

function failed(ended: ProcessEnd, stderr: string, logger: Logger): AgentError {
  const { status, signal } = ended
  logger.warn({ status: status ?? signal, reason: stderr }, "the agent's program failed")
  const how = status === null ? `was ended by ${signal}` : `failed with exit status ${status}`
  return new AgentError('AGENT_FAILED', `the agent's program ${how}`)
}

function unfinished(logger: Logger): AgentError {
  const cause =
    'a process that it started and that has left its group holds it open; end that one first, or close its output'
  logger.warn({}, `the agent's program ended and its standard output did not: ${cause}`)
  return new AgentError('AGENT_FAILED', "the agent's program ended before its output was complete")
}
