import type { Plugin } from 'graphql-yoga'

/** Ends the answers that Yoga sends with a line end, so that a terminal's next prompt has a line of its own. */
export const finalNewline: Plugin = {
  async onResponse({ response, setResponse, fetchAPI }) {
    if (!response.headers.get('content-type')?.includes('json')) return
    const { status, statusText, headers } = response
    const text = `${await response.text()}\n`
    headers.delete('content-length')
    setResponse(new fetchAPI.Response(text, { status, statusText, headers }))
  },
}
