import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from './until.ts'

/**
 * A slow program for a `command:` agent. It writes one file when it begins and one when it ends, named after the task,
 * and repeats the task.
 */
export function slowProgram(dir: string, ms: number): string[] {
  const program = `
    const { writeFileSync } = require('node:fs')
    const task = require('node:fs').readFileSync(0, 'utf8')
    const name = task.replace(/[^a-z0-9 ]/gi, '').slice(-40)
    writeFileSync(${JSON.stringify(`${dir}/`)} + 'begun ' + name, String(process.pid))
    setTimeout(() => {
      writeFileSync(${JSON.stringify(`${dir}/`)} + 'ended ' + name, '')
      process.stdout.write('slowly: ' + task)
    }, ${ms})`
  return [process.execPath, '-e', program]
}

/** Waits until the agent has begun a task whose name ends with `name`. @returns the pid of its process */
export async function begun(dir: string, name: string): Promise<number> {
  const file = join(dir, `begun ${name}`)
  return Number(await until(() => existsSync(file) && readFileSync(file, 'utf8'), { timeoutMs: 30_000, everyMs: 20 }))
}

export function hasEnded(dir: string, name: string): boolean {
  return existsSync(join(dir, `ended ${name}`))
}

/** Waits until a process has ended. */
export async function gone(pid: number): Promise<void> {
  await until(() => !isAlive(pid), { timeoutMs: 15_000, everyMs: 20 })
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
