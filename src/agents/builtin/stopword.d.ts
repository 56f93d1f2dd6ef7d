/** The package has no types. Its lists are named by ISO 639-3 codes. */
declare module 'stopword' {
  const lists: Readonly<Record<string, unknown>>
  export default lists
}
