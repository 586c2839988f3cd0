import { timingSafeEqual } from "node:crypto";

/** Whether an Authorization header carries the token. The time it takes depends on the length of the header alone. */
export function isAuthorized(header: string | undefined, token: string): boolean {
  const given = Buffer.from(bearerOf(header));
  const known = Buffer.from(token);
  return token !== "" && given.length === known.length && timingSafeEqual(given, known);
}

/** The token of an Authorization header; "" for none. */
export function bearerOf(header: string | undefined): string {
  return /^Bearer +(.*)$/i.exec(header ?? "")?.[1] ?? "";
}
