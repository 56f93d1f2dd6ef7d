import { expect, test } from 'vitest'
import { receiptFixture } from '../../test/support/fake-receipts.ts'
import { receiptsCsv } from './receipts.ts'

test('the name of a seller’s choice cannot become a formula in the exported table', () => {
  const csv = receiptsCsv([{ ...receiptFixture, agent_name: '=HYPERLINK("http://evil","x")' }], { headings: true })
  const [headings, line] = csv.split('\r\n')
  expect(headings).toMatch(
    /^payment_id,direction,status,.*,task_hash,result_hash,signature,note,format,channel_id,input_tokens,output_tokens,milliseconds,cut$/,
  )
  expect(line).toContain(`,"'=HYPERLINK(""http://evil"",""x"")",`)
  expect(line).toContain(receiptFixture.receipt!.signature)
})

test('what came without a receipt has empty cells for it', () => {
  const { receipt: _receipt, issued_at: _at, ...bare } = receiptFixture
  const csv = receiptsCsv([{ ...bare, status: 'wrong', note: 'signed by 0x1, not by the account that is paid' }], {
    headings: false,
  })
  expect(csv).toMatch(/,,,,"signed by 0x1, not by the account that is paid",,,,,,\r\n$/)
})

test('the table says what a call of a metered agent has used, and whether its output was cut', () => {
  const units = { input_tokens: 4, output_tokens: 10 }
  const csv = receiptsCsv([{ ...receiptFixture, units, cut: true }], { headings: false })
  expect(csv).toMatch(/,4,10,,true\r\n$/)
})
