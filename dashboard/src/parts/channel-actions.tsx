import { call } from '../api/client.ts'
import type { Channel, Listing } from '../api/types.ts'
import { amount, span } from '../format.ts'
import { navigate } from '../router.tsx'
import { Confirm } from './confirm.tsx'
import { say } from './toasts.tsx'

type How = 'close' | 'withdraw'

/** Ends a channel of this node. Only what can be done now is offered. */
export function ChannelActions({ channel, onDone }: { channel: Channel; onDone(): void }) {
  const { id, role, state, leaving, withdraw_delay_seconds: delay } = channel
  if (role === 'seller' || state === 'closed' || state === 'withdrawing') return null
  const leave = async (how: How) => {
    await call(`/channels/${id}/${how}`, { method: 'POST' })
    say(how === 'close' ? 'The node leaves this channel.' : 'The node begins a withdrawal.')
    onDone()
  }
  return (
    <div className="actions">
      {leaving === undefined && (
        <Confirm action="Close" title="Close this channel?" onConfirm={() => leave('close')}>
          <p>
            No new call is paid by this channel. The seller is asked for what is free, which costs you nothing. What it
            does not give within 10 minutes, the node takes out by a withdrawal.
          </p>
        </Confirm>
      )}
      {leaving?.way !== 'withdraw' && (
        <Confirm
          action="Withdraw"
          className="quiet"
          title="Withdraw without asking the seller?"
          onConfirm={() => leave('withdraw')}
        >
          <p>
            The node takes the money out by two transactions, which cost gas: the wallet needs ETH. The second one
            follows after {span(delay)}. Closing the channel is cheaper if the seller answers.
          </p>
        </Confirm>
      )}
    </div>
  )
}

/** Opens a channel to the seller of an agent, where it takes channels. */
export function OpenChannel({ agent }: { agent: Listing }) {
  const { channel, local, buyable, price, imported } = agent
  if (channel === undefined || local || !buyable || price === 0 || imported !== undefined) return null
  const open = async () => {
    const { id } = await call<Channel>('/channels', { method: 'POST', body: { agent_id: agent.id } })
    say('The deposit is signed. The chain shows it soon.')
    navigate(`/channels/${id}`)
  }
  return (
    <Confirm action="Open a payment channel" className="quiet" title="Open a payment channel?" onConfirm={open}>
      <p>
        The node deposits the price of 20 calls ({amount((price * 20).toFixed(6))}), or what the seller takes at least.
        Calls to this seller are then paid without transactions. What is not spent comes back when the channel is
        closed.
      </p>
    </Confirm>
  )
}
