/** The first view of a result: formatted JSON, or Markdown or text. */
export type ResultForm = { kind: 'json'; text: string } | { kind: 'text' } | { kind: 'bytes'; length: number }

/** Longer JSON, in characters, is shown unformatted. */
const JSON_LENGTH_MAX = 200_000

export function formOf(text: string, base64?: string): ResultForm {
  if (base64 !== undefined) return { kind: 'bytes', length: byteLength(base64) }
  if (text.length <= JSON_LENGTH_MAX && /^\s*[[{]/.test(text)) {
    try {
      // Numbers that JavaScript would round stay as received.
      const isExact = !/\d{16}/.test(text)
      if (isExact) return { kind: 'json', text: JSON.stringify(JSON.parse(text), null, 2) }
    } catch {
      // The text only looks like JSON.
    }
  }
  return { kind: 'text' }
}

function byteLength(base64: string): number {
  return Math.floor((base64.replace(/=+$/, '').length * 3) / 4)
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
}
