import pg from 'pg'
import { type LoadPlan, runLoad } from '../load.ts'
import { countTraffic, TRAFFIC } from '../paid-call/traffic.ts'
import { servePart } from '../part.ts'

const CONNECTIONS = 16
const INSERT = { name: 'insert', text: 'INSERT INTO floor (body) VALUES ($1)' }
const BODY = 'x'.repeat(1024)

/** The floor: each change is one INSERT with a commit of its own, as `pgbench` would do it, on 16 connections. */
servePart(async ({ databaseUrl = '' }) => {
  const traffic = countTraffic()
  const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client({ connectionString: databaseUrl }))
  await Promise.all(clients.map((client) => client.connect()))
  const waiting: ((client: pg.Client) => void)[] = []
  const free = [...clients]
  const call = async () => {
    const client = free.pop() ?? (await new Promise<pg.Client>((resolve) => waiting.push(resolve)))
    await client.query({ ...INSERT, values: [BODY] })
    const next = waiting.shift()
    if (next === undefined) free.push(client)
    else next(client)
  }
  return {
    ready: {},
    answer: async (question) => (question === TRAFFIC ? traffic() : runLoad(question as LoadPlan, call)),
    stop: async () => void (await Promise.all(clients.map((client) => client.end()))),
  }
})
