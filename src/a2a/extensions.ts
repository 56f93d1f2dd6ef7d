/** Payments over A2A: the extension's URI stands for its messages; the x402 objects in them are of version 2. */
export const X402_EXTENSION = 'https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2'

/** Ours: what a reader needs to reach the same agent over libp2p instead. */
export const STOA_EXTENSION = 'urn:stoa:a2a:agent:v1'
