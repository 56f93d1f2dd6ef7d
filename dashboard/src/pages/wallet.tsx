import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import { useStatus } from '../api/status.ts'
import type { Budget, Stats, WalletBalance } from '../api/types.ts'
import { ether, money, networkName } from '../format.ts'
import { Facts, Figure, Id, PageHead, Section } from '../parts/bits.tsx'
import { BudgetFacts } from '../parts/budget-facts.tsx'
import { PayingFigures, useChannelSums } from '../parts/channel-figures.tsx'
import { QrCode } from '../parts/qr-code.tsx'
import { Problem, Show } from '../parts/states.tsx'
import { books } from '../payment-words.ts'
import { Link } from '../router.tsx'

const BALANCE_MS = 20_000

export function Wallet() {
  const status = useStatus()
  const balance = useResource('/wallet/balance', (signal) => call<WalletBalance>('/wallet/balance', { signal }), {
    topics: ['payment'],
    everyMs: BALANCE_MS,
  })
  const budget = useResource('/budget', (signal) => call<Budget>('/budget', { signal }), {
    topics: ['order', 'payment', 'approval'],
  })
  return (
    <>
      <PageHead title="Wallet" />
      <Show of={status} what="The wallet is">
        {({ wallet_address, network, network_kind }) => (
          <div className="wallet">
            <QrCode text={wallet_address} label={`QR code of the address ${wallet_address}`} />
            <div>
              <p className="figure-value">
                {balance.data === undefined ? '–' : money(balance.data.balance)}{' '}
                <span className="unit">{balance.data?.symbol ?? 'USDC'}</span>
              </p>
              <Facts
                rows={[
                  ['Address', <Id key="address" value={wallet_address} ends={0} what="address" />],
                  ['Network', `${networkName(network)}, ${network_kind === 'test' ? 'test money' : 'real money'}`],
                  balance.data?.eth !== undefined && ['For gas', ether(balance.data.eth)],
                  balance.data !== undefined && ['Token', <Id key="asset" value={balance.data.asset} what="address" />],
                ]}
              />
              <p className="hint">
                Send USDC on {networkName(network)} to this address. Money on another network does not reach this node.
                The wallet needs ETH only for its own transactions, such as the registration of an agent on the chain.
              </p>
              {balance.error !== undefined && balance.data === undefined && <Problem error={balance.error} />}
            </div>
          </div>
        )}
      </Show>
      <Books />
      <InChannels />
      <Section title="Budget" aside={<Link to="/settings">Change</Link>}>
        <Show of={budget} what="The budget is">
          {(known) => <BudgetFacts budget={known} />}
        </Show>
      </Section>
    </>
  )
}

/** Money of this wallet that lies in payment channels. Sellers cannot take more than was signed. */
function InChannels() {
  const sums = useChannelSums().data
  if (sums === undefined || sums.paying.channels === 0) return null
  return (
    <Section title="In payment channels" aside={<Link to="/channels?role=buyer">Channels</Link>}>
      <p className="hint">This money is not in the balance above. What is not charged comes back to the wallet.</p>
      <PayingFigures sums={sums} />
    </Section>
  )
}

/** Income and spending of the wallet, and amounts that may still leave it. */
function Books() {
  const stats = useResource('/stats', (signal) => call<Stats>('/stats?days=30', { signal }), {
    topics: ['payment', 'order'],
  })
  return (
    <Section title="In 30 days" aside={<Link to="/payments">Payments</Link>}>
      <Show of={stats} what="Totals are">
        {({ earned, owed, paid, held }) => (
          <dl className="figures">
            <Figure label="Earned" value={money(earned.month)} unit="USDC" note={`${money(earned.total)} in total`} />
            <Figure label="Owed to you" value={money(owed.amount)} unit="USDC" note={books.owed.says} />
            <Figure label="Paid" value={money(paid.month)} unit="USDC" note={`${money(paid.total)} in total`} />
            <Figure label="Held" value={money(held.amount)} unit="USDC" note={books.held.says} />
          </dl>
        )}
      </Show>
    </Section>
  )
}
