import { expect, test } from 'vitest'
import { fakeServer, loopbackOptions } from '../../test/support/fake-api.ts'

const to = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'

test('D37 money leaves the wallet only on a network that the request names, and a refusal says what to send', async () => {
  const { app } = fakeServer()
  const send = async (payload: object) => {
    const headers = { authorization: `Bearer ${loopbackOptions.token}` }
    const response = await app.inject({ method: 'POST', url: '/wallet/send', headers, payload })
    return { status: response.statusCode, body: response.json() }
  }
  const missing = await send({ to, amount: '1' })
  expect(missing).toMatchObject({ status: 400, body: { code: 'INVALID_REQUEST' } })
  expect(missing.body.detail).toMatch(/network.*"eip155:84532".*GET \/wallet\/balance/)
  expect(await send({ to, amount: '1', network: 'eip155:1' })).toMatchObject({ status: 400 })
  expect(await send({ to, amount: '1', network: 'eip155:84532' })).toMatchObject({ status: 200 })
})
