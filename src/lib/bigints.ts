/** Math.max for amounts. */
export function largest(first: bigint, ...others: bigint[]): bigint {
  let found = first
  for (const one of others) if (one > found) found = one
  return found
}

/** Math.min for amounts. */
export function smallest(first: bigint, ...others: bigint[]): bigint {
  let found = first
  for (const one of others) if (one < found) found = one
  return found
}
