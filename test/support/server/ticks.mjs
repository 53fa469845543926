import { monitorEventLoopDelay } from 'node:perf_hooks'

/**
 * Loaded into a process before it starts, by NODE_OPTIONS: prints, at SIGUSR2, how long its longest tick of the event
 * loop was since the last time, in milliseconds of a clock, and of the time of the processor that all its threads took.
 */
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
let [before, longest] = [process.cpuUsage(), 0]
setInterval(() => {
  const { user, system } = process.cpuUsage(before)
  before = process.cpuUsage()
  longest = Math.max(longest, (user + system) / 1000)
}, 1).unref()

process.on('SIGUSR2', () => {
  console.log(`longest tick: ${JSON.stringify({ delayMs: delay.max / 1e6, cpuMs: longest })}`)
  delay.reset()
  longest = 0
})
