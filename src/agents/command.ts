import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { Logger } from '../lib/logger.ts'
import { commandEnvironment } from './command-environment.ts'
import { processGroup } from './process-group.ts'
import { type AgentCall, AgentError, type AgentRuntime, type OnOutput, outputTooLarge } from './runtime.ts'

/** The end of what a program says on stderr, for the log. */
const STDERR_BYTES_MAX = 8 * 1024
/** How long output may still come after the program has ended: only a process outside its group can hold the pipe open. */
const DRAIN_MS = 1000

export type CommandOptions = {
  name: string
  /** The program and its arguments. No shell reads them. */
  command: readonly string[]
  outputBytesMax: number
  /** Reads one environment variable by name. */
  readEnv(name: string): string | undefined
}

type Ended = { status: number | null; signal: NodeJS.Signals | null } | { error: NodeJS.ErrnoException }

/**
 * An agent that is a program: the task on stdin, the result on stdout (one line break at its end is dropped), success by exit
 * status 0.
 *
 * The program leads a process group of its own, and the whole group ends with the task.
 */
export function commandRuntime(options: CommandOptions, deps: { logger: Logger }): AgentRuntime {
  const logger = deps.logger.child({ agent: options.name })
  const env = commandEnvironment(options.readEnv)
  return {
    // Not the program: its name and arguments are the seller's business.
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
  if (signal.aborted) throw cancelled()
  const child = start(command, env, logger)
  const group = processGroup(child)
  signal.addEventListener('abort', group.stop, { once: true })
  try {
    const stdout = collect(child.stdout, outputBytesMax, group.kill)
    if (onOutput !== undefined) child.stdout.on('data', decoding(onOutput))
    const stderr = collectTail(child.stderr, STDERR_BYTES_MAX)
    // A program need not read its task: EPIPE is no failure.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const ended = await end(child)
    if (signal.aborted) throw cancelled()
    if (stdout.isOver()) throw outputTooLarge(outputBytesMax)
    if ('error' in ended) throw unstarted(ended.error, command, logger)
    if (ended.status !== 0) throw failed(ended, stderr(), logger)
    return new TextDecoder().decode(stdout.bytes()).replace(/\r?\n$/, '')
  } finally {
    signal.removeEventListener('abort', group.stop)
    group.kill()
  }
}

function start(
  command: readonly string[],
  env: Record<string, string>,
  logger: Logger,
): ChildProcessWithoutNullStreams {
  const [program = '', ...args] = command
  try {
    return spawn(program, args, { env, detached: true, windowsHide: true, stdio: 'pipe' })
  } catch (error) {
    // A NUL in an argument ends here; a missing program is an event.
    throw unstarted(error as NodeJS.ErrnoException, command, logger)
  }
}

/** Resolves when the program has ended and its output is complete. */
function end(child: ChildProcessWithoutNullStreams): Promise<Ended> {
  return new Promise((resolve) => {
    let drain: NodeJS.Timeout | undefined
    child.once('error', (error) => {
      if (child.pid === undefined) resolve({ error })
    })
    child.once('exit', (status, signal) => {
      drain = setTimeout(() => {
        child.stdout.destroy()
        child.stderr.destroy()
        resolve({ status, signal })
      }, DRAIN_MS)
    })
    child.once('close', (status, signal) => {
      clearTimeout(drain)
      resolve({ status, signal })
    })
  })
}

/** Keeps everything up to a limit, and calls `onOver` at the first byte beyond it. */
function collect(stream: Readable, bytesMax: number, onOver: () => void) {
  const chunks: Buffer[] = []
  let size = 0
  stream.on('data', (chunk: Buffer) => {
    if (size > bytesMax) return
    size += chunk.length
    if (size <= bytesMax) chunks.push(chunk)
    else onOver()
  })
  return { isOver: () => size > bytesMax, bytes: () => Buffer.concat(chunks) }
}

/** A character may come in two pieces. */
function decoding(onOutput: OnOutput): (chunk: Buffer) => void {
  const decoder = new TextDecoder()
  return (chunk) => onOutput(decoder.decode(chunk, { stream: true }))
}

/** Keeps the last bytes. */
function collectTail(stream: Readable, bytesMax: number): () => string {
  let tail = Buffer.alloc(0)
  stream.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-bytesMax)
  })
  return () => tail.toString('utf8').trim()
}

function unstarted(error: NodeJS.ErrnoException, command: readonly string[], logger: Logger): AgentError {
  logger.error({ program: command[0], reason: error.code ?? error.message }, "the agent's program cannot be started")
  return new AgentError('AGENT_NOT_RUNNABLE', "the agent's program cannot be started: its seller must check `command`")
}

function failed(ended: Exclude<Ended, { error: unknown }>, stderr: string, logger: Logger): AgentError {
  logger.warn({ ...ended, stderr }, "the agent's program failed")
  const how = ended.status === null ? `was ended by ${ended.signal}` : `failed with exit status ${ended.status}`
  return new AgentError('AGENT_FAILED', `the agent's program ${how}`)
}

function cancelled(): AgentError {
  return new AgentError('AGENT_CANCELLED', 'the task was cancelled')
}
