import { expect, test } from 'vitest'
import { parseAgentsDocument } from './agents-document.ts'

const parse = (fields: string) =>
  parseAgentsDocument(`agents:\n  - name: a\n    description: d\n    price: 0.01\n${fields}`, 'agents.yaml')
const problems = (fields: string) => {
  try {
    parse(fields)
  } catch (error) {
    return (error as Error).message
  }
  return expect.fail('was accepted')
}

test('an agent may be a remote A2A agent', () => {
  expect(parse('    a2a: https://agents.example/a\n    api_key_env: THEIR_TOKEN\n').agents[0]).toMatchObject({
    a2a: 'https://agents.example/a',
    api_key_env: 'THEIR_TOKEN',
  })
})

test('ADR-22 a remote agent may have max_price, and rewriting the file keeps it', () => {
  const document = parse('    a2a: https://agents.example/a\n    max_price: 0.000001\n')
  expect(document.agents[0]).toMatchObject({ max_price: 1n })
  document.put({ ...document.agents[0]!, max_price: 30_000n })
  expect(document.text()).toContain('max_price: 0.03')
  expect(parseAgentsDocument(document.text(), 'x').agents[0]).toMatchObject({ max_price: 30_000n })
})

const servers = `    model: gpt-5
    mcp:
      - command: [npx, -y, server] # files
        tools: [read, write]
      - url: https://tools.example/mcp
        token_env: TOOLS_TOKEN
`
test('a model may have MCP servers, and rewriting the file keeps their settings', () => {
  const document = parse(servers)
  const mcp = [
    { command: ['npx', '-y', 'server'], tools: ['read', 'write'] },
    { url: 'https://tools.example/mcp', token_env: 'TOOLS_TOKEN' },
  ]
  expect(document.agents[0]!.mcp).toEqual(mcp)
  document.put({ ...document.agents[0]!, price: 5n })
  expect(document.text()).toContain('# files')
  document.put({ ...document.agents[0]!, name: 'b' })
  expect(parseAgentsDocument(document.text(), 'x').agents.map((agent) => agent.mcp)).toEqual([mcp, mcp])
})

test.each([
  ['    a2a: ftp://x\n', /:5: .*a2a: is not an http\(s\) URL/],
  ['    a2a: https://me:hunter2@x/\n', /:5: .*a2a: contains a user name or a password/],
  [
    '    a2a: https://x/\n    model: gpt-5\n',
    /give one of model, command, http, module, a2a, mcp_tool, operation and worker/,
  ],
  ['    max_price: 0.03\n', /:5: .*max_price: needs a2a/],
  ['    a2a: https://x/\n    max_price: free\n', /:6: .*max_price: "free" is not valid: expected USDC above 0/],
  [
    '    http: https://x/\n    module: ./a.ts\n',
    /give one of model, command, http, module, a2a, mcp_tool, operation and worker/,
  ],
  ['    module: ./a.ts\n    mcp: [{command: [x]}]\n', /only a language model uses tools/],
  ['    command: [x]\n    mcp: [{command: [y]}]\n', /only a language model uses tools/],
  ['    mcp: x\n', /:5: .*mcp: expected a list of 1 to 8 MCP servers/],
  ['    mcp: [x]\n', /mcp: expected a list/],
  ['    mcp: []\n', /mcp/],
  ['    mcp: [{}]\n', /give either command or url/],
  ['    mcp: [{command: [x], url: https://x/}]\n', /give either command or url/],
  ['    mcp: [{command: x}]\n', /command: expected a program/],
  ['    mcp: [{url: https://x/, token: hunter2}]\n', /"token" is not known: expected command, url, tools, token_env/],
  ['    mcp: [{command: [x], token_env: T}]\n', /token_env needs url/],
  ['    mcp: [{url: https://x/, token_env: hunter2}]\n', /NAME of an environment variable/],
])('%j is refused with its line', (fields, said) => {
  const message = problems(fields)
  expect(message).toMatch(said)
  expect(message).toMatch(/^agents\.yaml:\d+: /)
  // T21: what was pasted by mistake may be a secret.
  expect(message).not.toContain('hunter2')
})
