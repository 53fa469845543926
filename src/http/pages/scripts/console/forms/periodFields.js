// Which totals a counter keeps, and for how many days.

import { element } from '../elements.js'
import { groupField, numberIn } from './fields.js'

const PERIODS = ['HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR']

/** A field for the periods that a counter keeps. */
export function periodsField(periods) {
  const parts = PERIODS.map((period) => {
    const found = periods.find((tracked) => tracked.period === period)
    const check = element('input', { type: 'checkbox', checked: found !== undefined })
    const days = element('input', {
      type: 'text',
      inputmode: 'numeric',
      value: found?.keepDays ?? undefined,
      placeholder: 'forever',
      'aria-label': `Days to keep ${period}`,
      maxlength: 17,
    })
    return { period, check, days }
  })
  const rows = parts.map(({ period, check, days }) =>
    element(
      'div',
      { class: 'period' },
      element('label', {}, check, ` ${period}`),
      days,
      element('span', {}, ' days'),
    ),
  )
  return {
    periodsElement: groupField('periods', 'Totals to keep', 'definition.periods', ...rows),
    /** The periods that are chosen, as the API takes them. */
    read: () =>
      parts
        .filter(({ check }) => check.checked)
        .map(({ period, days }) => ({ period: Symbol(period), keepDays: numberIn(days) })),
  }
}
