import { AuthorizationError, PermissionViolationError, UserAuthenticationExpiredError } from "@nats-io/nats-core";
import type { NatsAccess } from "./nats-access.ts";

/** Whether the server refused our credential, or its certificate is untrusted; false if it is only unreachable. */
export function isCredentialRefused(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (isRefusal(cause)) return true;
  return findCertificateTrouble(error) !== undefined;
}

/** Whether the server refused our credential. */
export function isRefusal(error: unknown): boolean {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError;
}

/** Whether the server refused an operation of an authenticated user. */
export function isForbidden(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof PermissionViolationError) return true;
  return false;
}

/** Builds the message about a refused credential, with the remedy. */
export function buildCredentialFault(credential: string): string {
  return `the server does not take ${credential}: give it the user's public key, or this service the right credential`;
}

/** Matches codes of Node and OpenSSL for an invalid certificate, or one for another host. */
const CERTIFICATE_CODES = /CERT|SIGNATURE|SIGNED|ISSUER/;

/** Node's error about the certificate of the server, which the client library wraps; undefined for other errors. */
export function findCertificateTrouble(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = "code" in cause ? cause.code : undefined;
    if (typeof code === "string" && CERTIFICATE_CODES.test(code)) return cause.message;
  }
  return undefined;
}

/** Builds the message about an untrusted certificate, with the remedy. */
export function buildCertificateFault(reason: string, tls: NatsAccess["tls"]): string {
  const trusted = tls?.caFile === undefined ? "Node's own list (MUSTER_NATS_CA_FILE is not set)" : tls.caFile;
  return `the server's certificate is not trusted by ${trusted}: ${reason}`;
}
