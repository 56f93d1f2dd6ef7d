/** What came after a payment was signed does not say whether it buys anything. Only the chain can tell. */
export class UnclearAnswer extends Error {
  override name = 'UnclearAnswer'
}
