export { X402_EXTENSION } from '../schema/a2a.ts'

/** Ours: what a reader needs to reach the same agent over libp2p instead. */
export const STOA_EXTENSION = 'urn:stoa:a2a:agent:v1'
