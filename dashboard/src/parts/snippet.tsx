import { Words } from './bits.tsx'
import { copyText } from './clipboard.ts'

/** A text to copy into another program. */
export function Snippet({ text, label }: { text: string; label: string }) {
  return (
    <div className="snippet">
      <Words text={text} label={label} />
      <button type="button" onClick={() => copyText(text, 'text')}>
        Copy
      </button>
    </div>
  )
}
