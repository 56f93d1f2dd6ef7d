import { type ReactNode, useRef, useState } from 'react'
import { Problem } from './states.tsx'

type Props = {
  /** The label of the button that asks, and of the button that acts. */
  action: string
  title: string
  children: ReactNode
  className?: string
  disabled?: boolean
  onConfirm(): Promise<unknown>
}

/** A button for an action that cannot be undone. It asks for confirmation first. */
export function Confirm({ action, title, children, className, disabled, onConfirm }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  async function confirm() {
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm()
      dialog.current?.close()
    } catch (reason) {
      setError(reason as Error)
    }
    setBusy(false)
  }

  return (
    <>
      <button type="button" className={className} disabled={disabled} onClick={() => dialog.current?.showModal()}>
        {action}
      </button>
      <dialog ref={dialog} aria-label={title}>
        <h2>{title}</h2>
        <div>{children}</div>
        {error !== undefined && <Problem error={error} />}
        <div className="actions end">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep
          </button>
          <button type="button" className="danger" disabled={busy} onClick={confirm}>
            {action}
          </button>
        </div>
      </dialog>
    </>
  )
}
