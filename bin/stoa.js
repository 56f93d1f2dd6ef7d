#!/usr/bin/env node
// A checkout runs its TypeScript source as it is; the published package, which has no source, runs dist/.
import { existsSync } from 'node:fs'
import { enableCompileCache } from 'node:module'

enableCompileCache()
const source = new URL('../src/main.ts', import.meta.url)
await import(existsSync(source) ? source.href : new URL('../dist/node/main.js', import.meta.url).href)
