import { Component, type ReactNode } from 'react'

/** Keeps an error of one page from breaking the other pages. */
export class Catch extends Component<{ children: ReactNode }, { error: Error | undefined }> {
  override state = { error: undefined as Error | undefined }

  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    const { error } = this.state
    if (error === undefined) return this.props.children
    const isOld = /dynamically imported module|module script/i.test(error.message)
    return (
      <section className="state bad" role="alert">
        <h1>{isOld ? 'The page could not be loaded' : 'The page has an error'}</h1>
        <p>{isOld ? 'The node may be stopped, or newer than this page.' : error.message}</p>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
      </section>
    )
  }
}
