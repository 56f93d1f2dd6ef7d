/*
 * Upstream: not reported. Seen in @libp2p/autonat-v2 2.0.15.
 * Goes when: the library can answer without asking, or asks several networks before it believes an address.
 */

/**
 * Keeps only the part of AutoNAT that dials others back. The library's asking part believes every answer, so `DialBack`
 * asks instead.
 */
export function answeringOnly<Components>(
  create: (components: Components) => unknown,
): (components: Components) => object {
  return (components) => Object.assign(create(components) as object, { client: { start: () => {}, stop: () => {} } })
}
