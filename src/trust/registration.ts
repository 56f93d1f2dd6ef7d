import { type Erc8004, encodeRegister, encodeSetAgentUri } from '../chain/erc8004.ts'
import { CodedError } from '../lib/errors.ts'
import { createLane } from '../lib/lane.ts'
import { pause } from '../lib/wait.ts'
import type { Sender } from '../payments/sender.ts'
import type { Listing } from '../schema/listing.ts'
import type { OnchainIdentity } from '../schema/standing.ts'
import type { Transactions } from '../store/transactions.ts'
import { registrationUri } from './registration-file.ts'

/** Prefixes of a transaction's purpose. The agent's id follows. */
export const REGISTER = 'register '
const UPDATE = 'registration-file '

/** Reads before giving up on a new token: RPC nodes may lag some blocks behind. */
const LOOKS_MAX = 10
/** Wait between two reads. */
const LOOK_MS = 1_000
const NO_PUBLIC_URL =
  'the registration file names no A2A and no MCP service: set public_url (NODE_PUBLIC_URL) to the public address of this node’s HTTP API, and register again'

export type RegistrationDeps = {
  erc8004: Erc8004
  network: string
  sender: Pick<Sender, 'open' | 'send'>
  transactions: Pick<Transactions, 'tokenOf'>
  relist(agentId: string): Promise<void>
  imageOf(agentId: string): string | undefined
  publicUrl: string | undefined
  /** How long one call waits for its transaction, and how often it checks, in ms. */
  waits?: { waitMs?: number; pollMs?: number }
}

/**
 * Registers an own agent on the chain. The token id is known only after the mint, so a second transaction writes the id
 * into the file.
 *
 * A repeated call does what is missing: the mint, the file, or an update of an outdated file.
 */
export function createRegistration(deps: RegistrationDeps) {
  const { erc8004, network, sender, transactions } = deps
  const { identity } = erc8004.registries
  const tokenOf = (agentId: string) => transactions.tokenOf(agentId, network)
  const fileOf = (listing: Listing, tokenId: string | undefined) =>
    registrationUri({ listing, identity, tokenId, publicUrl: deps.publicUrl, image: deps.imageOf(listing.id) })

  function already(tokenId: string, why = 'and its registration file says what it should'): CodedError {
    const has = `this agent has token ${tokenId} of ${identity} on ${network}`
    return new CodedError('ALREADY_REGISTERED', `${has}, ${why}`)
  }

  /** @returns the transaction; undefined if an earlier transaction, with another file, has minted the token */
  async function mint(agentId: string, uri: string, signal: AbortSignal): Promise<string | undefined> {
    const call = { purpose: `${REGISTER}${agentId}`, to: identity, data: encodeRegister(uri) }
    let isMinted = false
    const make = async () => {
      const tokenId = await tokenOf(agentId)
      isMinted = tokenId !== undefined
      if (tokenId !== undefined) throw already(tokenId)
      return call
    }
    const mined = await sender.send(make, signal).catch((error: unknown) => {
      if (!isMinted) throw error
    })
    if (mined === undefined) return undefined
    if (mined.token !== undefined) return mined.hash
    const why = `transaction ${mined.hash} was mined, but the registry minted no token in it`
    throw new CodedError('TRANSACTION_FAILED', why)
  }

  async function presentUri(tokenId: bigint, signal: AbortSignal): Promise<string | undefined> {
    for (let look = 1; ; look++) {
      const uri = await erc8004.uri(tokenId, signal)
      if (uri !== undefined || look === LOOKS_MAX) return uri
      await pause(deps.waits?.pollMs ?? LOOK_MS, signal)
      signal.throwIfAborted()
    }
  }

  /** @returns the transaction. @throws CodedError ALREADY_REGISTERED if there is nothing to change */
  async function update(agentId: string, uri: string, signal: AbortSignal): Promise<string> {
    const tokenId = BigInt((await tokenOf(agentId))!)
    const purpose = `${UPDATE}${agentId}`
    const guard = async () => {
      // An update is under way: `send` waits for it.
      if ((await sender.open()).some((one) => one.purpose === purpose)) return
      if ((await presentUri(tokenId, signal)) === uri) throw already(`${tokenId}`)
    }
    await guard()
    const call = { purpose, to: identity, data: encodeSetAgentUri(tokenId, uri), guard }
    return (await sender.send(() => call, signal)).hash
  }

  async function identityOf(agentId: string, uri: string, isOwnFile: boolean) {
    const token_id = (await tokenOf(agentId))!
    return {
      ...{ agent_id: agentId, token_id, network, registry: identity, uri },
      ...(isOwnFile && deps.publicUrl === undefined && { notice: NO_PUBLIC_URL }),
    }
  }

  /** Updates an agent that has its token. Replaces a file kept elsewhere only if `given` names a new one. */
  async function updated(listing: Listing, given: string | undefined, signal: AbortSignal): Promise<OnchainIdentity> {
    const tokenId = (await tokenOf(listing.id))!
    // The node may have stopped between the mint and the new listing.
    if (listing.token_id !== tokenId) await deps.relist(listing.id).catch(() => {})
    const present = given === undefined ? await presentUri(BigInt(tokenId), signal) : undefined
    if (present !== undefined && present !== '' && !present.startsWith('data:')) {
      throw already(tokenId, `and its registration file is at ${present}: change it there, or name another with --uri`)
    }
    const uri = given ?? fileOf(listing, tokenId)
    const tx_hash = await update(listing.id, uri, signal)
    return { ...(await identityOf(listing.id, uri, given === undefined)), minted: false, tx_hash }
  }

  async function register(listing: Listing, given: string | undefined, signal: AbortSignal): Promise<OnchainIdentity> {
    const { id } = listing
    if ((await tokenOf(id)) !== undefined) return updated(listing, given, signal)
    const tx_hash = await mint(id, given ?? fileOf(listing, undefined), signal)
    if (tx_hash === undefined) return updated(listing, given, signal)
    // The token exists even if relisting fails. The next listing names it.
    await deps.relist(id).catch(() => {})
    const uri = given ?? fileOf(listing, await tokenOf(id))
    const made = { ...(await identityOf(id, uri, given === undefined)), minted: true, tx_hash }
    if (given !== undefined) return made
    const update_tx_hash = await update(id, uri, signal).catch((error: unknown) => {
      if (!(error instanceof CodedError)) throw error
      const why = `token ${made.token_id} is minted in ${tx_hash}, but its registration file does not name it yet`
      throw new CodedError(error.code, `${why}: ${error.message}; then ask again, to finish it`, { cause: error })
    })
    return { ...made, update_tx_hash }
  }

  // One registration at a time: two would both find the same part missing.
  const inTurn = createLane()
  return (listing: Listing, given: string | undefined, signal: AbortSignal) =>
    inTurn(() => register(listing, given, signal))
}
