export type BrowserRequest = {
  readonly method: string;
  /** The host to which the request was sent: `host:port`. */
  readonly host: string;
  readonly origin: string | undefined;
  /** The header `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
};

/** `because` is a text for people. */
export type OriginVerdict = { readonly kind: "allowed" } | { readonly kind: "refused"; readonly because: string };

const READING = new Set(["GET", "HEAD", "OPTIONS"]);
const ALLOWED: OriginVerdict = { kind: "allowed" };

/** Returns whether an address can have this host: a name or an IP address, and a port. */
export function isHost(host: string): boolean {
  return /^([\w.-]+|\[[\d.:a-f]+\])(:\d{1,5})?$/i.test(host) && URL.canParse(`http://${host}`);
}

/** Decides whether a page of this host sent the request, and no other page. The scheme may differ, because a proxy in front may use TLS. */
export function decideOrigin({ method, host, origin, fetchSite }: BrowserRequest): OriginVerdict {
  if (READING.has(method)) return ALLOWED;
  if (origin !== undefined && URL.parse(origin)?.host !== URL.parse(`${schemeOf(origin)}://${host}`)?.host)
    return { kind: "refused", because: "a page of another origin has sent the request" };
  if (fetchSite !== undefined && fetchSite !== "same-origin" && fetchSite !== "none")
    return { kind: "refused", because: "a page of another site has sent the request" };
  return ALLOWED;
}

/** Decides whether a request with the cookie of a session comes from a page that knows the session. */
export function decideSessionRequest(
  request: BrowserRequest & { readonly csrfToken: string | undefined },
  expected: string,
): OriginVerdict {
  const verdict = decideOrigin(request);
  if (verdict.kind === "refused" || READING.has(request.method) || request.csrfToken === expected) return verdict;
  const because = request.csrfToken === undefined ? "is missing" : "is not that of the session";
  return { kind: "refused", because: `the header X-CSRF-Token ${because}; GET /auth/session returns it` };
}

function schemeOf(origin: string): string {
  return origin.startsWith("https:") ? "https" : "http";
}
