/** Addresses that no agent asks (T12, T39). */
import { expect, test } from 'vitest'
import { patientFetch } from './http.ts'
import { isOfTheMachine, lookupOutside } from './machine-address.ts'

test.each([
  '169.254.169.254',
  '169.254.0.1',
  '100.100.100.200',
  'fe80::1',
  'fe80::1%eth0',
  'fd00:ec2::254',
  '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe',
  '::a9fe:a9fe',
  '64:ff9b::a9fe:a9fe',
])('T12 %s is an address of the machine itself', (address) => {
  expect(isOfTheMachine(address)).toBe(true)
})

test.each(['127.0.0.1', '10.0.0.1', '192.168.1.1', '8.8.8.8', '::1', '2606:4700::1111', 'localhost', ''])(
  '%s is none of them: the operator may name a service there',
  (address) => {
    expect(isOfTheMachine(address)).toBe(false)
  },
)

test.each([
  'http://169.254.169.254/latest/meta-data/',
  'http://169.254.169.254./',
  'http://0xa9fea9fe/',
  'http://2852039166/',
  'http://0251.0376.0251.0376/',
  'http://[::ffff:169.254.169.254]/',
])('T12 no agent asks %s', async (url) => {
  await expect(patientFetch(url, { signal: AbortSignal.timeout(2_000) })).rejects.toMatchObject({
    code: 'ADDRESS_REFUSED',
  })
})

test('T12 a name is resolved by the connection itself, and refused if it leads there', async () => {
  const looked = (name: string) =>
    new Promise((resolve) => lookupOutside(name, { all: true }, (error, list) => resolve(error ?? list)))
  expect(await looked('169.254.169.254')).toMatchObject({ code: 'ADDRESS_REFUSED' })
  expect(await looked('127.0.0.1')).toEqual([{ address: '127.0.0.1', family: 4 }])
})
