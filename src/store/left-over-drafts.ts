import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { draftOwner } from '../lib/draft-name.ts'
import { dataFiles } from './data-dir.ts'
import { isAlive } from './lock.ts'

/**
 * Removes drafts of our own files that a process left when it was killed: some hold a key.
 *
 * For the start of a node that holds the lock. Commands write beside it, so the draft of a process that lives stays; those
 * of this very number are not ours, as we have written nothing yet.
 */
export async function removeLeftOverDrafts(dataDir: string): Promise<void> {
  const ours = new Set<string>([...Object.values(dataFiles), '.probe'])
  for (const name of await readdir(dataDir)) {
    const draft = draftOwner(name)
    // A file that is replaced in place has its draft hidden: see config/replace-file.ts.
    if (draft === undefined || !(ours.has(draft.of) || ours.has(draft.of.replace(/^\./, '')))) continue
    if (draft.pid !== 0 && draft.pid !== process.pid && isAlive(draft.pid)) continue
    await unlink(join(dataDir, name)).catch(() => {})
  }
}
