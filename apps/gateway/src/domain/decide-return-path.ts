/** Base of relative addresses: any host works, because only a change of the host matters. */
const BASE = "http://host.invalid";
const MAX_CHARACTERS = 2000;

/** Decides the path of this host to which a browser returns after its sign-in; `/` for an address on another host or of the sign-in. */
export function decideReturnPath(asked: unknown): string {
  if (typeof asked !== "string" || !asked.startsWith("/") || asked.length > MAX_CHARACTERS) return "/";
  const url = URL.parse(asked, BASE);
  if (url?.origin !== BASE || url.pathname.startsWith("//") || url.pathname.startsWith("/auth/")) return "/";
  return `${url.pathname}${url.search}${url.hash}`;
}
