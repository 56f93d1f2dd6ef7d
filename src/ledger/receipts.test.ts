import { expect, test } from 'vitest'
import { receiptFixture } from '../../test/support/fake-receipts.ts'
import { receiptsCsv } from './receipts.ts'

test('the name of a seller’s choice cannot become a formula in the exported table', () => {
  const csv = receiptsCsv([{ ...receiptFixture, agent_name: '=HYPERLINK("http://evil","x")' }], { headings: true })
  const [headings, line] = csv.split('\r\n')
  expect(headings).toMatch(/^payment_id,direction,status,.*,task_hash,result_hash,signature,note,format,channel_id$/)
  expect(line).toContain(`,"'=HYPERLINK(""http://evil"",""x"")",`)
  expect(line).toContain(receiptFixture.receipt!.signature)
})

test('what came without a receipt has empty cells for it', () => {
  const { receipt: _receipt, issued_at: _at, ...bare } = receiptFixture
  const csv = receiptsCsv([{ ...bare, status: 'wrong', note: 'signed by 0x1, not by the account that is paid' }], {
    headings: false,
  })
  expect(csv).toMatch(/,,,,"signed by 0x1, not by the account that is paid",,\r\n$/)
})
