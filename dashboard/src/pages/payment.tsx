import type { PaymentRecord } from '../api/types.ts'
import { AgentLink } from '../parts/agent-link.tsx'
import { Facts, Id, PageHead, Section } from '../parts/bits.tsx'
import { PaymentPanel, Receipt, useExchange } from '../parts/exchange.tsx'
import { Frames } from '../parts/frames.tsx'
import { Link } from '../router.tsx'
import { paymentTitle } from '../stages.ts'

export function Payment({ id }: { id: string }) {
  const { payment, receipt, known } = useExchange(id, {})
  const record = payment.data
  return (
    <>
      <PageHead title={record === undefined ? 'Payment' : paymentTitle(record)} />
      <div className="split">
        <div>
          <PaymentPanel payment={payment} />
        </div>
        <aside aria-label="Purpose and receipt">
          {record !== undefined && <For record={record} />}
          {receipt !== undefined && <Receipt record={receipt} />}
        </aside>
      </div>
      {record !== undefined && <Frames known={known} />}
    </>
  )
}

function For({ record }: { record: PaymentRecord }) {
  return (
    <Section title="For">
      <Facts
        rows={[
          ['Agent', <AgentLink key="agent" id={record.agent_id} name={record.agent_name} />],
          [record.direction === 'in' ? 'Buyer' : 'Seller', <Id key="peer" value={record.peer_id} what="peer id" />],
          record.order_id !== undefined && [
            'Order',
            <Link key="order" to={`/orders/${record.order_id}`}>
              task and result
            </Link>,
          ],
          record.correlation_id !== undefined && [
            'Exchange',
            <Id key="exchange" value={record.correlation_id} what="correlation id" />,
          ],
        ]}
      />
    </Section>
  )
}
