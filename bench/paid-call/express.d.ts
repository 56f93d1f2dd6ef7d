/** As much of Express as the HTTP seller uses; its own types are a package that nothing else needs. */
declare module 'express' {
  import type { Server } from 'node:http'

  type Handler = (request: { body: unknown }, response: { json(body: unknown): void }, next: () => void) => unknown
  type App = {
    use(handler: unknown): void
    post(path: string, ...handlers: Handler[]): void
    listen(port: number, host: string): Server
  }
  const express: { (): App; json(): Handler }
  export default express
  export type Request = unknown
  export type Response = unknown
  export type NextFunction = () => void
}
