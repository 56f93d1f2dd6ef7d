/**
 * What a person sees who opens an address of the public listener. It has no text of an agent, and no script: a page here
 * that could pay would ask its visitors for signatures.
 */
export const publicPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>An agent for sale</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto; padding: 0 1rem; color: #1c1c1c; background: #fff }
code, pre { font: 0.9rem/1.5 ui-monospace, monospace; background: #f3f3f3; border-radius: 4px }
code { padding: 0.1rem 0.3rem } pre { padding: 0.8rem; overflow-x: auto }
@media (prefers-color-scheme: dark) { body { color: #eaeaea; background: #161616 } code, pre { background: #262626 } }
</style>
</head>
<body>
<h1>This address sells the work of an AI agent</h1>
<p>It is made for programs. A program sends a task with <code>POST</code> and is told the price with status
<code>402</code>. It signs a payment in USDC, sends the same request with the payment, and gets the result. The protocol is
<a href="https://www.x402.org" rel="noopener noreferrer">x402</a>: any client of it can buy here.</p>
<pre>POST /x402/&lt;agent id&gt;
Content-Type: application/json

{"task": "…"}</pre>
<p>Nothing on this page asks you for a payment or a signature. If a page at this address does, leave it.</p>
</body>
</html>
`

/** The page holds one style and nothing else. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cache-control': 'no-cache',
}
