/** The part of Express used here and in the bench. Its own types are a package that nothing else needs. */
declare module 'express' {
  import type { IncomingMessage, Server, ServerResponse } from 'node:http'

  export type Request = IncomingMessage & { body: unknown; query: object }
  export type Response = ServerResponse & { json(body: unknown): void }
  export type NextFunction = (error?: unknown) => void
  export type RequestHandler = (request: Request, response: Response, next: NextFunction) => unknown
  export type ErrorRequestHandler = (error: unknown, request: Request, response: Response, next: NextFunction) => void
  export type Express = {
    (request: IncomingMessage, response: ServerResponse): void
    use(handler: RequestHandler): void
    use(handler: ErrorRequestHandler): void
    post(path: string, ...handlers: RequestHandler[]): void
    disable(setting: string): void
    listen(port: number, host: string): Server
  }
  const express: { (): Express; json(): RequestHandler }
  export default express
}
