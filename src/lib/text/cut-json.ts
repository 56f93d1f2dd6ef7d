/** The beginning of a text that takes at most so many bytes as a string of JSON, without its quotes. Cuts no character in two. */
export function cutJson(text: string, bytesMax: number): string {
  const bytesOf = (part: string) => Buffer.byteLength(JSON.stringify(part)) - 2
  if (bytesOf(text) <= bytesMax) return text
  const mark = '…'
  let bytes = Buffer.byteLength(mark)
  let cut = ''
  for (const character of text) {
    bytes += bytesOf(character)
    if (bytes > bytesMax) break
    cut += character
  }
  return cut + mark
}
