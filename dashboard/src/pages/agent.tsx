import { call } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { Listing } from '../api/types.ts'
import { amount, count, duration, money, networkName, percent, ratesText } from '../format.ts'
import { Ago, Facts, Figure, Id, PageHead, Section } from '../parts/bits.tsx'
import { BuyForm } from '../parts/buy-form.tsx'
import { OpenChannel } from '../parts/channel-actions.tsx'
import { Show } from '../parts/states.tsx'
import { Link } from '../router.tsx'

/** An agent on the market: its listing, its seller, its record, and a form to buy. */
export function Agent({ id }: { id: string }) {
  const path = `/agents/${encodeURIComponent(id)}`
  const listing = useResource(path, (signal) => call<Listing>(`${path}?include=stats`, { signal }), {
    topics: ['listing'],
    everyMs: 15_000,
  })
  return (
    <Show of={listing} what="This agent is" title="Agent">
      {(agent) => (
        <>
          <PageHead title={agent.name}>
            {agent.local && (
              <Link to={`/agents/${agent.id}`} className="button">
                Edit
              </Link>
            )}
          </PageHead>
          <p className="lead">{agent.description}</p>
          {agent.imported !== undefined && (
            <div className="state warn">
              <p className="state-title">Imported by hand</p>
              <p>
                No signed listing confirms this agent. The operator of this node entered its name, price and address.
                The id that the seller uses is {agent.imported.agent_id}.
              </p>
            </div>
          )}
          {agent.look_alike_of !== undefined && (
            <div className="state warn">
              <p className="state-title">The name is easily confused with another agent</p>
              <p>
                “{agent.look_alike_of.name}” by another seller was listed before or at the same time. Compare the
                sellers before you buy: <Link to={`/market/${agent.look_alike_of.id}`}>show the other</Link>.
              </p>
            </div>
          )}
          <Record agent={agent} />
          <div className="columns">
            <Section title={agent.price > 0 && !agent.local ? 'Buy' : 'Run'}>
              <BuyForm agent={agent} />
            </Section>
            <Seller agent={agent} />
          </div>
        </>
      )}
    </Show>
  )
}

/** This node's own experience with the agent, and feedback of others on the chain. */
function Record({ agent: { price, pricing, stats, reputation } }: { agent: Listing }) {
  const calls = stats?.calls ?? 0
  return (
    <dl className="figures">
      <Figure
        label={pricing === undefined ? 'Price of a call' : 'A call, at most'}
        {...(price === 0 ? { value: 'free' } : { value: money(price), unit: 'USDC' })}
      />
      <Figure label="Your calls" value={count(calls)} {...(calls === 0 && { note: 'not tried yet' })} />
      <Figure label="Success" value={calls === 0 ? '–' : percent(stats?.success_rate)} />
      <Figure
        label="Median"
        value={calls === 0 ? '–' : duration(stats?.p50_ms)}
        {...(calls > 0 && { note: `p95 ${duration(stats?.p95_ms)}` })}
      />
      <Figure
        label="Rating"
        value={reputation?.count ? String(reputation.score ?? reputation.value) : '–'}
        note={reputation?.count ? `of 100, by ${count(reputation.count)} buyers` : 'no ratings yet'}
      />
    </dl>
  )
}

function Seller({ agent }: { agent: Listing }) {
  const { stats } = agent
  const name = agent.seller_name
  return (
    <Section title="Seller" aside={<Link to={`/market?seller_id=${agent.seller_id}`}>All its agents</Link>}>
      <Facts
        rows={[
          name !== undefined && [
            'Name',
            <span key="name">
              {name} <span className="hint">Names are not unique. The peer id identifies the seller.</span>
            </span>,
          ],
          ['Peer id', <Id key="seller" value={agent.seller_id} what="peer id" />],
          [
            'Online',
            agent.local ? 'this node' : agent.online === undefined ? 'not known' : agent.online ? 'yes' : 'no',
          ],
          agent.latency_ms !== undefined && ['Latency', duration(agent.latency_ms)],
          stats !== undefined && stats.calls > 0 && ['Paid in total', amount(stats.settled_volume)],
          agent.first_seen !== undefined && ['Known since', <Ago key="first" iso={agent.first_seen} />],
        ]}
      />
      <h2 className="spaced">Agent</h2>
      <Facts
        rows={[
          agent.model !== undefined && ['Runs on', agent.model],
          agent.timeout_seconds !== undefined && ['Time limit', `${agent.timeout_seconds} s`],
          agent.tags.length > 0 && ['Tags', agent.tags.join(', ')],
          ['Network', networkName(agent.network)],
          agent.token_id !== undefined && ['On-chain identity', agent.token_id],
          ['Paid to', <Id key="to" value={agent.pay_to} what="address" />],
          agent.pricing !== undefined && ['Prices by use', ratesText(agent.pricing)],
          agent.channel !== undefined && ['Payment channels', channelsText(agent)],
          ['Agent id', <Id key="id" value={agent.id} />],
        ]}
      />
      <OpenChannel agent={agent} />
    </Section>
  )
}

function channelsText({ schemes }: Listing): string {
  const isNeeded = schemes !== undefined && !schemes.includes('exact')
  return isNeeded ? 'needed: it is sold on them only' : 'taken: many calls by one deposit'
}
