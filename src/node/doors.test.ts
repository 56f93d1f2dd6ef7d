import { expect, test } from 'vitest'
import { doorPlaces } from './doors.ts'

const agent = (id: string, price: bigint | undefined) => ({ id, definition: { name: id, price }, lacks: undefined })

test('an agent that is sold on channels only is at the door of peers, and at no other', () => {
  const places = doorPlaces({
    host: { addresses: () => ['/ip4/192.0.2.1/tcp/4001'] },
    registry: { list: () => [agent('priced', 1n), agent('metered', undefined)] },
    publicUrl: () => 'https://seller.example',
  } as never)
  const names = Object.fromEntries(
    Object.entries(places).map(([door, { agents }]) => [door, agents.map(({ agent_name }) => agent_name)]),
  )
  expect(names).toEqual({ libp2p: ['priced', 'metered'], http: ['priced'], a2a: ['priced'], mcp: ['priced'] })
})
