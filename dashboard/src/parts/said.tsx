import { Fragment } from 'react'

/** What the node says, with its commands: these stand between backticks, as in a terminal. */
export function Said({ children: text }: { children: string }) {
  const parts = text.split('`')
  // A backtick without its partner is text.
  if (parts.length % 2 === 0) return <>{text}</>
  return (
    <>
      {parts.map((part, no) => {
        // The parts of a text never change their places.
        const key = `${no} ${part}`
        return no % 2 === 0 ? <Fragment key={key}>{part}</Fragment> : <code key={key}>{part}</code>
      })}
    </>
  )
}
