const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The value of a JSON text, or undefined if the text is not JSON or its bytes are not UTF-8. */
export function parseJson(text: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof text === 'string' ? text : utf8.decode(text))
  } catch {
    return undefined
  }
}
