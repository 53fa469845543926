import { newer, type TypedDocument } from 'nth-counters/client'
import { useEffect, useState } from 'react'
import { nth } from '../nth.ts'

/** What a subscription has sent so far, in its newest state. */
export function useLive<Data, Variables = object>(
  document: string | TypedDocument<Data, Variables>,
  variables: NoInfer<Variables>,
): Data | undefined {
  const [data, setData] = useState<Data>()
  const key = JSON.stringify(variables)
  useEffect(() => {
    setData(undefined)
    // An event has only what changed.
    const onData = (changed: Data) => setData((shown) => newer(shown, changed))
    return nth.subscribe(document, JSON.parse(key), { onData }).stop
  }, [document, key])
  return data
}
