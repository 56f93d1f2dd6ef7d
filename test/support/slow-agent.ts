import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from './until.ts'

/**
 * A slow program for a `command:` agent. It writes one file when it begins and one when it ends, named after the task,
 * and repeats the task.
 *
 * @param ms how long it takes; `told`: until `letEnd`
 */
export function slowProgram(dir: string, ms: number | 'told'): string[] {
  const program = `
    const { existsSync, readFileSync, writeFileSync } = require('node:fs')
    const task = readFileSync(0, 'utf8')
    const name = task.replace(/[^a-z0-9 ]/gi, '').slice(-40)
    const file = (what) => ${JSON.stringify(`${dir}/`)} + what + ' ' + name
    writeFileSync(file('begun'), String(process.pid))
    const end = () => {
      writeFileSync(file('ended'), '')
      process.stdout.write('slowly: ' + task, () => process.exit(0))
    }
    const ms = ${JSON.stringify(ms)}
    if (ms === 'told') setInterval(() => existsSync(file('end')) && end(), 20)
    else setTimeout(end, ms)`
  return [process.execPath, '-e', program]
}

/** Lets a program that waits for this end its task. */
export function letEnd(dir: string, name: string): void {
  writeFileSync(join(dir, `end ${name}`), '')
}

/** Waits until the agent has begun a task whose name ends with `name`. @returns the pid of its process */
export async function begun(dir: string, name: string): Promise<number> {
  const file = join(dir, `begun ${name}`)
  return Number(await until(() => existsSync(file) && readFileSync(file, 'utf8'), { everyMs: 20 }))
}

export function hasEnded(dir: string, name: string): boolean {
  return existsSync(join(dir, `ended ${name}`))
}

/** Waits until a process has ended. */
export async function gone(pid: number): Promise<void> {
  await until(() => !isAlive(pid), { everyMs: 20 })
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
