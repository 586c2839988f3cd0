/** Any host works, because only leaving the host matters. */
const BASE = "http://host.invalid";
const MAX_CHARACTERS = 2000;

/** Decides the path of this host to which a browser returns after its sign-in; `/` for anything that leads to another host or back to the sign-in. */
export function decideReturnPath(asked: unknown): string {
  if (typeof asked !== "string" || !asked.startsWith("/") || asked.length > MAX_CHARACTERS) return "/";
  const url = URL.parse(asked, BASE);
  if (url?.origin !== BASE || url.pathname.startsWith("//") || url.pathname.startsWith("/auth/")) return "/";
  return `${url.pathname}${url.search}${url.hash}`;
}
