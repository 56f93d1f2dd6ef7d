/** Counts the requests of strangers by status. */
export const PUBLIC_REQUESTS = 'stoa_public_requests_total'
