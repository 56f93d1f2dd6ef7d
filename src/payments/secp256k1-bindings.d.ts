/** The native half of the `secp256k1` package: libsecp256k1 without its slow fallback. */
declare module 'secp256k1/bindings.js' {
  const native: {
    publicKeyCreate(privateKey: Uint8Array, compressed: boolean): Uint8Array
    ecdsaSign(digest: Uint8Array, privateKey: Uint8Array): { signature: Uint8Array; recid: number }
    ecdsaRecover(signature: Uint8Array, recid: number, digest: Uint8Array, compressed: boolean): Uint8Array
  }
  export default native
}
