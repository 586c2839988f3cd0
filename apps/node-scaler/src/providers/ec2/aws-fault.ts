import { EC2ServiceException } from "@aws-sdk/client-ec2";
import { findFault, type Fault } from "@muster/faults";

const THROTTLED_RETRY_MS = 5_000;
const UNAVAILABLE_RETRY_MS = 10_000;
const DENIED = ["UnauthorizedOperation", "AuthFailure", "AccessDenied", "CredentialsProviderError"];

/** Returns the service's error code; empty if the error is not from the service. */
export function getAwsErrorCode(error: unknown): string {
  return error instanceof Error ? error.name : "";
}

/** Converts an error of the SDK into a fault for the caller. */
export function toAwsFault(
  error: unknown,
  { provider, doing, timeoutMs }: { readonly provider: string; readonly doing: string; readonly timeoutMs: number },
): Fault {
  const known = findFault(error);
  if (known !== undefined) return known;
  const code = getAwsErrorCode(error);
  if (code === "AbortError" || code === "TimeoutError")
    return { code: "deadline_exceeded", operation: doing, timeoutMs };
  if (code === "RequestLimitExceeded" || code.startsWith("Throttling")) {
    return { code: "limit_exceeded", what: `requests to ${provider}`, limit: 0, retryAfterMs: THROTTLED_RETRY_MS };
  }
  if (error instanceof EC2ServiceException && error.$fault === "client" && !isRetryable(error)) {
    const hint = DENIED.includes(code) ? "; the provider's page lists the needed permissions" : "";
    return { code: "invalid_request", field: `providers.${provider}`, reason: `${code}: ${error.message}${hint}` };
  }
  return { code: "unavailable", dependency: provider, retryAfterMs: UNAVAILABLE_RETRY_MS };
}

function isRetryable({ $retryable, $metadata }: EC2ServiceException): boolean {
  return $retryable !== undefined || ($metadata.httpStatusCode ?? 400) >= 500;
}
