export { STOA_EXTENSION, X402_EXTENSION } from '../schema/a2a.ts'
