import { inject } from 'vitest'
import { askOnce } from './made-once.ts'

let program: Promise<string> | undefined

/** The file of the bundled `faulty-node.ts`. */
export function bundledNode(): Promise<string> {
  program ??= askOnce<string>(inject('bundle'))
  return program
}
