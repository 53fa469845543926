import type { Plugin } from 'graphql-yoga'

/** Ends Yoga's responses with a newline, so that a terminal's next prompt starts on a line of its own. */
export const finalNewline: Plugin = {
  async onResponse({ response, setResponse, fetchAPI }) {
    if (!response.headers.get('content-type')?.includes('json')) return
    const { status, statusText, headers } = response
    const text = `${await response.text()}\n`
    headers.delete('content-length')
    setResponse(new fetchAPI.Response(text, { status, statusText, headers }))
  },
}
