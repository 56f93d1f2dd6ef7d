/* The entrance to agents.yaml: reads and writes the file. agents-document.ts: its text; agents-fields.ts: an entry. */

import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { CodedError, reasonOf } from '../lib/errors.ts'
import type { AgentDefinition } from '../schema/agent.ts'
import type { AgentsDocument } from './agents-document.ts'
import { ConfigError } from './config-error.ts'
import { lockFile } from './file-lock.ts'
import { replaceFile } from './replace-file.ts'

const FILE_BYTES_MAX = 1024 * 1024

/**
 * The agents of `agents.yaml`, in their order (D11). A missing file has none.
 *
 * @throws ConfigError with file, line and key of each problem
 */
export async function readAgentsFile(path: string): Promise<AgentDefinition[]> {
  const text = await readText(path)
  return text === undefined ? [] : (await parse(text, path)).agents
}

/** What `agents.yaml` holds, for a node that runs already. */
export type StoredAgents = Pick<AgentsDocument, 'agents' | 'hasList' | 'lineOf'> & { path: string }

/** Reads the file with the lines of its agents. @throws ConfigError as {@link readAgentsFile} */
export async function readStoredAgents(path: string): Promise<StoredAgents> {
  const { agents, hasList, lineOf } = await parse((await readText(path)) ?? '', path)
  return { agents, hasList, lineOf, path }
}

/**
 * Writes an agent into the file. An agent of the same name is replaced in place. Comments and order are kept.
 *
 * Safe against a crash and against other processes that write at the same time.
 *
 * @throws ConfigError if the present file is not valid, which leaves it unchanged; CodedError 'AGENTS_FILE_UNWRITABLE'
 */
export async function addAgentToFile(path: string, definition: AgentDefinition): Promise<void> {
  await edit(path, (document) => {
    document.put(definition)
    return true
  })
}

/**
 * Writes several agents that are new to the file, all or none.
 *
 * @throws ConfigError if the file already has an agent of one of the names; else as {@link addAgentToFile}
 */
export async function addNewAgentsToFile(path: string, definitions: readonly AgentDefinition[]): Promise<void> {
  await edit(path, (document) => {
    for (const definition of definitions) {
      const same = document.agents.find(({ name }) => name.normalize('NFC') === definition.name.normalize('NFC'))
      if (same !== undefined) throw new ConfigError(nameTaken(path, same.name))
      document.put(definition)
    }
    return true
  })
}

export function nameTaken(path: string, name: string): string {
  return `${path} already has an agent ${JSON.stringify(name)}, which is left as it is: give another --name, or remove it with stoa agent config remove`
}

/** The text of an agents.yaml with these agents. */
export async function agentsText(definitions: readonly AgentDefinition[]): Promise<string> {
  const document = await parse('', 'agents.yaml')
  for (const definition of definitions) document.put(definition)
  return document.text()
}

/** Removes an agent from the file. @returns true if it was there. @throws as {@link addAgentToFile} */
export async function removeAgentFromFile(path: string, name: string): Promise<boolean> {
  return edit(path, (document) => document.remove(name))
}

/** Reads, changes and replaces the file under a lock, so that two changes at once are both kept. */
async function edit(path: string, change: (document: AgentsDocument) => boolean): Promise<boolean> {
  try {
    const target = await resolveLink(path)
    const lock = await lockFile(`${target}.lock`)
    try {
      const document = await parse((await readText(target)) ?? '', path)
      if (!change(document)) return false
      const text = document.text()
      if (Buffer.byteLength(text) > FILE_BYTES_MAX) throw tooLarge(path)
      if (!(await lock.isHeld())) throw new CodedError('FILE_LOCKED', 'another process changed the file: try again')
      await replaceFile(target, text)
      return true
    } finally {
      await lock.release()
    }
  } catch (error) {
    if (error instanceof ConfigError) throw error
    throw new CodedError('AGENTS_FILE_UNWRITABLE', `${path} cannot be written: ${explain(error)}`, { cause: error })
  }
}

/** The YAML library loads only if there is a file. */
async function parse(text: string, path: string): Promise<AgentsDocument> {
  const { parseAgentsDocument } = await import('./agents-document.ts')
  return parseAgentsDocument(text, path)
}

async function readText(path: string): Promise<string | undefined> {
  try {
    // Without O_NONBLOCK, opening a named pipe would never return.
    await using file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
    const stats = await file.stat()
    if (!stats.isFile())
      throw new ConfigError(`${path}: this is not a file: expected a YAML file with a list of agents`)
    if (stats.size > FILE_BYTES_MAX) throw tooLarge(path)
    return decode(await file.readFile(), path)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new ConfigError(`${path}: the file cannot be read: ${explain(error)}`, { cause: error })
  }
}

function decode(bytes: Buffer, path: string): string {
  if (bytes.length > FILE_BYTES_MAX) throw tooLarge(path)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new ConfigError(`${path}: the file is not UTF-8 text: save it as UTF-8`)
  }
}

/** Follows a link: replacing the link would separate it from its target. */
async function resolveLink(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return path
    throw error
  }
}

function tooLarge(path: string): ConfigError {
  return new ConfigError(
    `${path}: the file is larger than ${FILE_BYTES_MAX / 1024} KiB: move some agents to another node`,
  )
}

/** Says what to do about an error, if that is known. */
function explain(error: unknown): string {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EACCES':
    case 'EPERM':
      return 'permission denied: give this user access to the file'
    case 'EROFS':
      return 'the file system is read-only'
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    case 'EBUSY':
      return 'the file is a mount of its own: mount its directory instead'
    case 'ENOENT':
      return 'its directory does not exist'
    default:
      return reasonOf(error)
  }
}
