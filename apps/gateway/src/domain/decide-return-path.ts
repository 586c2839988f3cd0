/** Any host: only whether a path leaves it matters. */
const BASE = "http://host.invalid";
const MAX_CHARACTERS = 2000;

/** The path of this host that a browser returns to after it has signed in; `/` for anything that leads to another host or back to the sign-in. */
export function decideReturnPath(asked: unknown): string {
  if (typeof asked !== "string" || !asked.startsWith("/") || asked.length > MAX_CHARACTERS) return "/";
  const url = URL.parse(asked, BASE);
  if (url?.origin !== BASE || url.pathname.startsWith("//") || url.pathname.startsWith("/auth/")) return "/";
  return `${url.pathname}${url.search}${url.hash}`;
}
