// @module-tag slow
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { query } from '../support/database/database.ts'
import { privateServerWith } from '../support/database/privateServer.ts'
import { freePort } from '../support/server/freePort.ts'
import { dataDirectory, spawnNth, startNth } from '../support/server/nthProcess.ts'

const CERTIFICATES = join(import.meta.dirname, '../support/tls')
const AUTHORITY = join(CERTIFICATES, 'ca.pem')
const INCREMENT = 'mutation { increment(name: "a") { value } }'

/** A server with the certificate of a host, whose users must use TLS. Returns its port. */
async function serverOf(host: string): Promise<number> {
  const port = await freePort()
  const files = ['cert.pem', 'key.key'].map((file) => {
    const [kind, ending] = file.split('.')
    return `--ssl-${kind}=${join(CERTIFICATES, `${host}.${ending}`)}`
  })
  const target = await privateServerWith(await dataDirectory(), [
    '--skip-networking=0',
    '--bind-address=127.0.0.1',
    `--port=${port}`,
    ...files,
  ])
  await query(
    { ...target, database: 'mysql' },
    "create user nth@'%' identified by 'secret' require ssl",
    'grant all on nth.* to nth',
  )
  return port
}

const urlAt = (port: number, parameters: string) => `mysql://nth:secret@localhost:${port}/nth?${parameters}`

it('ssl-ca: verifies that a server has a certificate of that authority for its name', async () => {
  const [right, wrong, other] = [
    await serverOf('localhost'),
    await serverOf('db.example'),
    await serverOf('db.example'),
  ]
  const nth = await startNth({ DATABASE_URL: urlAt(right, `ssl-ca=${AUTHORITY}`) })
  expect((await nth.ask(INCREMENT)).increment.value).toBe(1)

  for (const [url, reason] of [
    [urlAt(wrong, `ssl-ca=${AUTHORITY}`), "Host: localhost. is not in the cert's altnames: DNS:db.example"],
    // Not an authority that the system knows.
    [urlAt(right, 'ssl=true'), 'unable to verify the first certificate'],
    [
      `mysql://nth:secret@localhost:${wrong},localhost:${other}/nth?ssl-ca=${AUTHORITY}`,
      `localhost:${other}: Hostname/IP does not match`,
    ],
  ]) {
    const { child, exited, printed } = spawnNth({ DATABASE_URL: url ?? '' })
    await printed(reason ?? '')
    child.kill('SIGTERM')
    await exited
  }
})
