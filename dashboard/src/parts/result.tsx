import { useMemo, useState } from 'react'
import { count } from '../format.ts'
import { bytesOf, formOf } from '../result-form.ts'
import { Section, Words } from './bits.tsx'
import { copyText } from './clipboard.ts'
import { Markdown } from './markdown.tsx'

type Props = {
  title: string
  text: string
  /** The bytes of an answer that is not UTF-8. */
  base64?: string | undefined
  label: string
  /** Name of the saved file, without its extension. */
  file: string
}

/** An agent's answer, formatted or as plain text, with buttons to copy and save it. */
export function Result({ title, text, base64, label, file }: Props) {
  const [isRaw, setRaw] = useState(false)
  const form = useMemo(() => formOf(text, base64), [text, base64])

  function save() {
    const parts = base64 === undefined ? [text] : [bytesOf(base64)]
    const ending = form.kind === 'bytes' ? 'bin' : form.kind === 'json' ? 'json' : 'md'
    const url = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }))
    const link = document.createElement('a')
    link.href = url
    link.download = `${file}.${ending}`
    link.click()
    setTimeout(() => URL.revokeObjectURL(url), 10_000)
  }

  return (
    <Section
      title={title}
      aside={
        <div className="result-tools">
          <button type="button" className="quiet" aria-pressed={isRaw} onClick={() => setRaw(!isRaw)}>
            As text
          </button>
          <button type="button" className="quiet" onClick={() => copyText(text, 'result')}>
            Copy
          </button>
          <button type="button" className="quiet" onClick={save}>
            Save
          </button>
        </div>
      }
    >
      {form.kind === 'bytes' && (
        <p className="note">
          The result is not text. It has {count(form.length)} bytes. Save it to get all bytes. Below is the part that is
          text.
        </p>
      )}
      {isRaw || form.kind === 'bytes' ? (
        <Words text={text} label={label} />
      ) : form.kind === 'json' ? (
        <Words text={form.text} label={label} />
      ) : (
        <Markdown text={text} label={label} />
      )}
    </Section>
  )
}
