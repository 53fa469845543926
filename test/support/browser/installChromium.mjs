// Runs before the tests: has Debian's Chromium installed where it is missing and this user may do so.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { findChromium } from './chromium.mjs'

if (!findChromium()) {
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    console.log("Installing Debian's Chromium for the browser tests…")
    try {
      execFileSync('apt-get', ['update', '-qq'], { stdio: ['ignore', 'ignore', 'inherit'] })
      execFileSync('apt-get', ['install', '-qq', '-y', '--no-install-recommends', 'chromium'], {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      })
    } catch (error) {
      console.log(`Chromium could not be installed: ${error.message}`)
    }
  }
  if (!findChromium()) {
    console.log(
      'There is no Chromium here: the browser tests (test/browser) are left out. To run them: apt-get install chromium',
    )
  }
}
