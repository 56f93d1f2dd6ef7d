/** The package brings no types. Lists are named by ISO 639-3 codes. */
declare module 'stopword' {
  const lists: Readonly<Record<string, unknown>>
  export default lists
}
