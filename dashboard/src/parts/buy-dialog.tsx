import { useEffect, useRef } from 'react'
import type { Listing } from '../api/types.ts'
import { BuyForm } from './buy-form.tsx'
import { SellerName } from './seller-name.tsx'

/** The purchase form above the market list. */
export function BuyDialog({ agent, onClose }: { agent: Listing; onClose(): void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  return (
    <dialog ref={dialog} className="buy" onClose={onClose} aria-label={`${agent.local ? 'Run' : 'Buy'} ${agent.name}`}>
      <div className="section-head">
        <h2>{agent.name}</h2>
        <button type="button" className="quiet" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
      <p className="muted clamp">{agent.description}</p>
      {!agent.local && (
        <p className="muted">
          Sold by <SellerName of={agent} />
        </p>
      )}
      <BuyForm agent={agent} />
    </dialog>
  )
}
