import type { Key } from 'ink'
import { expect, test, vi } from 'vitest'
import { createControls } from './controls.ts'
import { textOf } from './line-editor.ts'
import { createScreenState } from './screen-state.ts'

function bench() {
  const state = createScreenState()
  const deed = { send: vi.fn(), interrupt: vi.fn(), leave: vi.fn() }
  const words = ['/agent', '/agents', '/order']
  const controls = createControls(
    state,
    (text) => ({ from: 0, candidates: words.filter((word) => word.startsWith(text)) }),
    deed,
  )
  const press = (key: Partial<Key>, input = '') => controls.press(input, key, 5)
  return { state, deed, controls, press, text: () => textOf(state.get().line) }
}

test('types, moves over and deletes whole characters, including emoji', () => {
  const { controls, press, text } = bench()
  controls.type('a👩‍👩‍👧b')
  press({ leftArrow: true })
  press({ backspace: true })
  expect(text()).toBe('ab')
  press({ ctrl: true }, 'a')
  controls.type('x y ')
  press({ ctrl: true }, 'w')
  expect(text()).toBe('x ab')
  press({ ctrl: true }, 'u')
  expect(text()).toBe('ab')
})

test('keys that arrive together with text work as usual, and control characters are not typed', () => {
  const { controls, deed, text } = bench()
  controls.type('/ord\tlist\u0007x\u007f\r/next')
  expect(deed.send).toHaveBeenCalledWith('/order list')
  expect(text()).toBe('/next')
})

test('pasted text never runs', () => {
  const { controls, deed, text } = bench()
  controls.paste('/exit\r\n/agent\u001b[2J\n')
  expect(deed.send).not.toHaveBeenCalled()
  expect(text()).toBe('/exit\n/agent[2J')
})

test('Tab fills in the common prefix of the candidates, and a space after a single candidate', () => {
  const { controls, press, text, state } = bench()
  controls.type('/a')
  press({ tab: true })
  expect(text()).toBe('/agent')
  expect(state.get().candidates).toEqual(['/agent', '/agents'])
  press({ escape: true })
  controls.type('/o')
  press({ tab: true })
  expect(text()).toBe('/order ')
})

test('up and down walk through the history', () => {
  const { controls, press, deed, text } = bench()
  controls.type('one\rtwo\r')
  press({ upArrow: true })
  press({ upArrow: true })
  press({ upArrow: true })
  expect(text()).toBe('one')
  press({ downArrow: true })
  press({ downArrow: true })
  expect(text()).toBe('')
  expect(deed.send).toHaveBeenCalledTimes(2)
})

test('Ctrl-C interrupts; Ctrl-D leaves only from an empty line', () => {
  const { controls, press, deed } = bench()
  press({ ctrl: true }, 'c')
  controls.type('x')
  press({ ctrl: true }, 'd')
  expect(deed.interrupt).toHaveBeenCalledOnce()
  expect(deed.leave).not.toHaveBeenCalled()
  press({ escape: true })
  press({ ctrl: true }, 'd')
  expect(deed.leave).toHaveBeenCalledOnce()
})
