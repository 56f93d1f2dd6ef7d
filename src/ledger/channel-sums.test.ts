import { expect, test } from 'vitest'
import { payingChannelOf } from '../../test/support/buyer-channels.ts'
import { payingSums } from './channel-sums.ts'

const onChain = { balance: 100_000n, totalClaimed: 0n, withdrawal: undefined, refundNonce: 0n }
const deposit = { amount: 50_000n } as NonNullable<ReturnType<typeof payingChannelOf>['deposit']>

test('what is reserved is part of what is locked', () => {
  const open = payingChannelOf({ onChain, charged: 10_000n, mark: 30_000n })
  expect(payingSums([open])).toMatchObject({ locked: '0.09', reserved: '0.02', charged: '0.01' })

  // The seller has given back what was free. Nothing can be claimed above what was charged.
  const emptied = payingChannelOf({
    onChain: { ...onChain, balance: 40_000n, totalClaimed: 40_000n },
    ...{ charged: 40_000n, mark: 60_000n, moved: { in: 100_000n, out: 60_000n } },
  })
  expect(payingSums([open, emptied])).toMatchObject({ locked: '0.09', reserved: '0.02', charged: '0.05' })

  const moved = { in: 0n, out: 0n }
  const opening = payingChannelOf({ onChain: { ...onChain, balance: 0n }, moved, mark: 1n, deposit })
  expect(payingSums([opening])).toMatchObject({ locked: '0.05', reserved: '0.000001' })
})
