/** Nothing here is a secret of the caller: no cookie and no token is read. So pages of any origin may ask, and pay. */
const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, Mcp-Session-Id',
}

/** On every answer of the public listener. */
export const baseHeaders = {
  ...corsHeaders,
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'cross-origin',
  'cache-control': 'no-store',
}
