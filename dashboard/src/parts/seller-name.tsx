import type { Listing } from '../api/types.ts'
import { short } from '../format.ts'

/** A seller's chosen name with its identifier, because any seller can choose any name. */
export function SellerName({ of: { local, seller_id, seller_name } }: { of: Listing }) {
  if (local) return <>this node</>
  const id = (
    <code className="seller-id" title={`Peer ${seller_id}`}>
      {seller_name === undefined ? short(seller_id, 5) : seller_id.slice(-6)}
    </code>
  )
  if (seller_name === undefined) return id
  return (
    <span className="seller-both" title={`Name chosen by the seller: ${seller_name}. Peer id: ${seller_id}`}>
      <span className="seller-name">{seller_name}</span> {id}
    </span>
  )
}
