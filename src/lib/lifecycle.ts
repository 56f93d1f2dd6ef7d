/** A part of the node that holds a resource. */
export interface Service {
  readonly name: string
  start(): Promise<void>
  stop(): Promise<void>
}

/** Starts services in order and stops them in reverse, also the running ones if one fails to start. */
export class ServiceStack {
  readonly #services: readonly Service[]
  #running: Service[] = []

  constructor(services: readonly Service[]) {
    this.#services = services
  }

  async start(): Promise<void> {
    for (const service of this.#services) {
      try {
        await service.start()
      } catch (error) {
        await this.stop().catch(() => {})
        throw error
      }
      this.#running.push(service)
    }
  }

  async stop(): Promise<void> {
    const errors: unknown[] = []
    for (const service of this.#running.splice(0).reverse()) {
      await service.stop().catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) throw new AggregateError(errors, 'services did not stop cleanly')
  }
}

/** Combines several services: started in the given order, stopped in parallel. */
export function together(name: string, services: readonly Service[]): Service {
  const stack = new ServiceStack(services)
  return {
    name,
    start: () => stack.start(),
    async stop() {
      const ends = await Promise.allSettled(services.map((service) => service.stop()))
      const errors = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []))
      if (errors.length > 0) throw new AggregateError(errors, `${name} did not stop cleanly`)
    },
  }
}
