import { say } from './toasts.tsx'

/** @param what the name of the text in the confirmation */
export async function copyText(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    say(`Copied the ${what}.`)
  } catch {
    say('The browser does not allow copying here. Select the text instead.')
  }
}
