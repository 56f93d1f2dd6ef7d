import { rm } from 'node:fs/promises'
import * as z from 'zod'
import { dataFile } from './data-dir.ts'
import { readSecretFile, writeSecretFile } from './secret-file.ts'

/** What a running node tells other processes on its machine, in `node.json`. */
export const NodeFile = z.object({
  pid: z.int().positive(),
  /** Absent if the API is switched off. */
  api_url: z.url({ protocol: /^http$/ }).optional(),
  peer_id: z.string().max(128),
  addresses: z.array(z.string().max(512)).max(256),
  started_at: z.iso.datetime(),
})
export type NodeFile = z.infer<typeof NodeFile>

export async function writeNodeFile(dataDir: string, node: NodeFile): Promise<void> {
  await writeSecretFile(dataFile(dataDir, 'node'), `${JSON.stringify(node, null, 2)}\n`, { replace: true })
}

/**
 * What the last node wrote. A crashed node leaves the file behind: check that its process lives before you trust it.
 */
export async function readNodeFile(dataDir: string): Promise<NodeFile | undefined> {
  try {
    const text = await readSecretFile(dataFile(dataDir, 'node'))
    return text === undefined ? undefined : NodeFile.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

export async function removeNodeFile(dataDir: string): Promise<void> {
  await rm(dataFile(dataDir, 'node'), { force: true })
}
