// By hand: eventsource-parser drops events without data (ADR-24).
export type ServerEvent = { event: string; data: string; id: string | undefined }

/** Parses an event stream from chunks of any size, and emits complete events. */
export function createEventReader(onEvent: (event: ServerEvent) => void): (text: string) => void {
  let rest = ''
  let event = ''
  let data: string[] = []
  let id: string | undefined
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0 || event !== '') onEvent({ event: event || 'message', data: data.join('\n'), id })
        event = ''
        data = []
        continue
      }
      const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/.exec(line)!
      if (field === 'event') event = value
      else if (field === 'data') data.push(value)
      else if (field === 'id') id = value
    }
  }
}
