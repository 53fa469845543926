#!/usr/bin/env -S node --enable-source-maps --max-semi-space-size=32 --initial-old-space-size=192 --heap-growing-percent=30
// The executable. What these options do is said in src/operations/process.ts.
import '../dist/main.js'
