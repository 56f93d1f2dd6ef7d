import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { draftOwner } from '../lib/draft-name.ts'
import { dataFiles } from './data-dir.ts'
import { isAlive } from './lock.ts'

/**
 * Removes drafts of our own files left by killed processes: some hold a key.
 *
 * Call it at the start of a node that holds the lock. Commands may write beside the node, so drafts of living processes
 * stay. A draft with our own pid is left over as well, since this process has not written yet.
 */
export async function removeLeftOverDrafts(dataDir: string): Promise<void> {
  const ours = new Set<string>([...Object.values(dataFiles), '.probe'])
  for (const name of await readdir(dataDir)) {
    const draft = draftOwner(name)
    // A file replaced in place has a hidden draft: see config/replace-file.ts.
    if (draft === undefined || !(ours.has(draft.of) || ours.has(draft.of.replace(/^\./, '')))) continue
    if (draft.pid !== 0 && draft.pid !== process.pid && isAlive(draft.pid)) continue
    await unlink(join(dataDir, name)).catch(() => {})
  }
}
