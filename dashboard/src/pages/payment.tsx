import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { PaymentRecord } from '../api/types.ts'
import { AgentName } from '../parts/agent-name.tsx'
import { Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { Exchange } from '../parts/exchange.tsx'
import { Link } from '../router.tsx'
import { paymentTitle } from '../stages.ts'

export function Payment({ id }: { id: string }) {
  const path = `/payments/${encodeURIComponent(id)}`
  const payment = useResource(path, (signal) => call<PaymentRecord>(path, { signal }), { topics: ['payment'] })
  const record = payment.data
  return (
    <>
      <PageHead title={record === undefined ? 'Payment' : paymentTitle(record)} />
      {record !== undefined && (
        <Section title="For">
          <Facts
            rows={[
              [
                'Agent',
                <Link key="agent" to={`/market/${record.agent_id}`}>
                  <AgentName id={record.agent_id} name={record.agent_name} />
                </Link>,
              ],
              [record.direction === 'in' ? 'Buyer' : 'Seller', <Id key="peer" value={record.peer_id} what="peer id" />],
              record.order_id !== undefined && [
                'Order',
                <Link key="order" to={`/orders/${record.order_id}`}>
                  show the exchange
                </Link>,
              ],
              record.correlation_id !== undefined && [
                'Exchange',
                <Id key="exchange" value={record.correlation_id} ends={8} what="correlation id" />,
              ],
            ]}
          />
        </Section>
      )}
      <Exchange paymentId={id} />
    </>
  )
}
