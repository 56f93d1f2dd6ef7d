import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Budget, NodeStatus, WalletBalance } from '../api/types.ts'
import { money, networkName } from '../format.ts'
import { Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { BudgetFacts } from '../parts/budget-facts.tsx'
import { QrCode } from '../parts/qr-code.tsx'
import { Problem, Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'

const BALANCE_MS = 20_000

export function Wallet() {
  const status = useResource('/status', (signal) => call<NodeStatus>('/status', { signal }), { topics: ['status'] })
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
        {({ wallet_address, network }) => (
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
                  ['Network', networkName(network)],
                  balance.data !== undefined && ['Token', <Id key="asset" value={balance.data.asset} what="address" />],
                ]}
              />
              <p className="hint">
                Send USDC on {networkName(network)} here and nowhere else: what is sent on another network is lost to
                this node. No ether is needed.
              </p>
              {balance.error !== undefined && balance.data === undefined && <Problem error={balance.error} />}
            </div>
          </div>
        )}
      </Show>
      <Section title="Budget" aside={<Link to="/settings">Change</Link>}>
        <Show of={budget} what="The budget is">
          {(known) => <BudgetFacts budget={known} />}
        </Show>
      </Section>
    </>
  )
}
