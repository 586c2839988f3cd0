import { AuthorizationError, PermissionViolationError, UserAuthenticationExpiredError } from "@nats-io/nats-core";
import type { NatsAccess } from "./nats-access.ts";

/** Whether this came of a credential that the server does not take, or of a certificate that we do not, and not of a server that is away. */
export function isCredentialRefused(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (isRefusal(cause)) return true;
  return certificateTrouble(error) !== undefined;
}

/** Whether the server has not taken our credential. */
export function isRefusal(error: unknown): boolean {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError;
}

/** Whether the server has let us in, but does not permit us this. */
export function isForbidden(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof PermissionViolationError) return true;
  return false;
}

/** What to say then, and do. */
export function credentialRefused(credential: string): string {
  return `the server does not take ${credential}: give it the user's public key, or this service the right credential`;
}

/** Of Node and OpenSSL: what is wrong with a certificate, or with whom it is for. */
const CERTIFICATE_CODES = /CERT|SIGNATURE|SIGNED|ISSUER/;

/** What Node says of the server's certificate; undefined where that is not what went wrong. The client library wraps it. */
export function certificateTrouble(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = "code" in cause ? cause.code : undefined;
    if (typeof code === "string" && CERTIFICATE_CODES.test(code)) return cause.message;
  }
  return undefined;
}

/** What to say of such a certificate. */
export function certificateRefused(reason: string, tls: NatsAccess["tls"]): string {
  const trusted = tls?.caFile === undefined ? "Node's own list (MUSTER_NATS_CA_FILE is not set)" : tls.caFile;
  return `the server's certificate is not trusted by ${trusted}: ${reason}`;
}
