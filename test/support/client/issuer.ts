import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { onTestFinished } from 'vitest'

export const ISSUER = 'https://issuer.example'
export const AUDIENCE = 'nth'
/** What a token grants, unless its claims say otherwise. */
export const GRANTS = [{ scopes: ['ADD'], namespace: 'shop', names: ['book'] }]

/** An expiry that no test reaches, in seconds since 1970. */
export const soon = () => Math.floor(Date.now() / 1000) + 60

/** An issuer with published keys. */
export async function startIssuer() {
  const keys = await generateKeyPair('ES256', { extractable: true })
  const rsa = await generateKeyPair('RS256', { extractable: true })
  const ed = await generateKeyPair('EdDSA', { extractable: true })
  let fetches = 0
  const published = await Promise.all(
    Object.entries({ es: keys, rsa, ed }).map(async ([kid, { publicKey }]) => ({
      ...(await exportJWK(publicKey)),
      kid,
    })),
  )
  let answer = (response: ServerResponse): unknown =>
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: published }))
  const server = createServer((_, response) => {
    fetches += 1
    answer(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())))
  const { port } = server.address() as AddressInfo

  async function token(
    claims: Record<string, unknown> = {},
    { alg = 'ES256', kid = 'es', key = keys.privateKey } = {},
  ) {
    const payload = {
      iss: ISSUER,
      aud: AUDIENCE,
      sub: 'visitor',
      exp: soon(),
      nth: { grants: GRANTS },
      ...claims,
    }
    return new SignJWT(payload as JWTPayload).setProtectedHeader({ alg, kid }).sign(key)
  }
  return {
    settings: { issuer: ISSUER, audience: AUDIENCE, jwksUrl: `http://127.0.0.1:${port}/jwks` },
    token,
    rsa,
    ed,
    published,
    fetches: () => fetches,
    /** From now on it answers so. */
    answerWith: (other: (response: ServerResponse) => unknown) => {
      answer = other
    },
  }
}
