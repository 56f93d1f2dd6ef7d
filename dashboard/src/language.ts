/**
 * Import this before uPlot. uPlot passes the browser's language to Intl when it loads, and Intl throws for a tag such as
 * `en-US@posix`, which Chromium has under LANG=C. The page itself always writes numbers and dates as `en-GB`.
 */
try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en-GB', configurable: true })
}
