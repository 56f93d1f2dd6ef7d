import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Channel as ChannelRecord } from '../api/types.ts'
import { channelStates, withdrawalClock } from '../channel-words.ts'
import { amount, count, ended, networkName, sentence, span } from '../format.ts'
import { Ago, Badge, Facts, Id, PageHead, Section, useNow } from '../parts/bits.tsx'
import { ChannelActions } from '../parts/channel-actions.tsx'
import { ChannelBar } from '../parts/channel-bar.tsx'
import { Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'

/** One payment channel: what lies in it, what was charged, and who can take what. */
export function Channel({ id }: { id: string }) {
  const path = `/channels/${encodeURIComponent(id)}`
  // No event tells of what the chain shows: the page asks.
  const channel = useResource(path, (signal) => call<ChannelRecord>(path, { signal }), { everyMs: 3_000 })
  return (
    <Show of={channel} what="Payment channels are" title="Channel">
      {(record) => (
        <>
          <PageHead title={record.role === 'buyer' ? 'Channel to a seller' : 'Channel of a buyer'}>
            <ChannelActions channel={record} onDone={channel.reload} />
          </PageHead>
          <div className="split">
            <div>
              <Money channel={record} />
            </div>
            <aside aria-label="Between whom, and since when">
              <Parties channel={record} />
            </aside>
          </div>
        </>
      )}
    </Show>
  )
}

function Money({ channel }: { channel: ChannelRecord }) {
  const { role, state, balance, free, charged, calls, calls_under_way: underWay, stopped, deposit } = channel
  const isBuyer = role === 'buyer'
  return (
    <Section title="Money">
      <p className="paid-amount">
        {amount(balance)} deposited <Badge state={state} tone={channelStates[state].tone} />
      </p>
      <p className="muted">
        {sentence(channelStates[state].says)}
        {stopped === undefined ? '.' : `: ${stopped}.`}
      </p>
      <ChannelBar channel={channel} />
      <Facts
        rows={[
          ['Charged', `${amount(charged)} in ${calls === 1 ? '1 call' : `${count(calls)} calls`}`],
          underWay !== undefined &&
            underWay > 0 && ['Under way', underWay === 1 ? '1 call' : `${count(underWay)} calls`],
          ['Free', `${amount(free)} for ${isBuyer ? 'the next calls' : 'the next calls of the buyer'}`],
          ['Signed up to', `${amount(channel.signed)}: ${isBuyer ? 'the seller' : 'this node'} can claim no more`],
          deposit !== undefined && [
            'Deposit under way',
            <span key="deposit">
              {amount(deposit.amount)}; the chain does not show it yet. It can happen <Ago iso={deposit.valid_before} />
              .
            </span>,
          ],
          channel.owed_since !== undefined && [
            'Not claimed',
            <span key="owed">
              {amount(channel.unclaimed)}, <Ago iso={channel.owed_since} />
            </span>,
          ],
          channel.leaving !== undefined && ['Leaving', <Leaving key="leaving" leaving={channel.leaving} />],
          channel.closed_at !== undefined && ['Closed', <Ago key="closed" iso={channel.closed_at} />],
          channel.withdrawal !== undefined && ['Withdrawal', <Withdrawal key="withdrawal" channel={channel} />],
        ]}
      />
    </Section>
  )
}

const reasons: Record<NonNullable<ChannelRecord['leaving']>['why'], string> = {
  asked: 'you asked for it',
  idle: 'no call used it for long',
  stopped: 'the seller stated what cannot be true',
}

function Leaving({ leaving: { why, way, since, trouble } }: { leaving: NonNullable<ChannelRecord['leaving']> }) {
  return (
    <span>
      {sentence(reasons[why])}, <Ago iso={since} />.{' '}
      {way === 'refund' ? 'The seller is asked first.' : 'By a withdrawal, without asking the seller.'}
      {trouble !== undefined && <span className="bad-text"> {ended(sentence(trouble))}</span>}
    </span>
  )
}

function Withdrawal({ channel: { withdrawal, role, unclaimed } }: { channel: ChannelRecord }) {
  const now = useNow()
  if (withdrawal === undefined) return null
  return (
    <span>
      {amount(withdrawal.amount)} {withdrawalClock(withdrawal, now)}.{' '}
      {role === 'buyer'
        ? 'The seller can claim what it has charged until then.'
        : `This node claims the ${amount(unclaimed)} that it has charged before.`}
    </span>
  )
}

function Parties({ channel }: { channel: ChannelRecord }) {
  const isBuyer = channel.role === 'buyer'
  return (
    <Section title="About">
      <Facts
        rows={[
          channel.peer_name !== undefined && [isBuyer ? 'Seller' : 'Buyer', channel.peer_name],
          [
            channel.peer_name === undefined ? (isBuyer ? 'Seller' : 'Buyer') : 'Peer',
            <Id key="peer" value={channel.peer_id} what="peer id" />,
          ],
          channel.agent_id !== undefined && [
            'Opened for',
            <Link key="agent" to={`/agents/${channel.agent_id}`}>
              {channel.agent_name ?? channel.agent_id}
            </Link>,
          ],
          ['From', <Id key="payer" value={channel.payer} what="address" />],
          ['To', <Id key="receiver" value={channel.receiver} what="address" />],
          ['Network', networkName(channel.network)],
          ['Withdrawals take', span(channel.withdraw_delay_seconds)],
          ['Opened', <Ago key="opened" iso={channel.created_at} />],
          ['Last charge', channel.calls === 0 ? 'none yet' : <Ago key="used" iso={channel.used_at} />],
          ['Channel', <Id key="id" value={channel.id} what="channel id" />],
        ]}
      />
    </Section>
  )
}
