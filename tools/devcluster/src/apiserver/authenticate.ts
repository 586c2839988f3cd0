import { timingSafeEqual } from "node:crypto";

/** Returns whether an Authorization header has the token. The time depends only on the length of the header. */
export function isAuthorized(header: string | undefined, token: string): boolean {
  const given = Buffer.from(getBearer(header));
  const known = Buffer.from(token);
  return token !== "" && given.length === known.length && timingSafeEqual(given, known);
}

/** Returns the token of an Authorization header; "" if none. */
export function getBearer(header: string | undefined): string {
  return /^Bearer +(.*)$/i.exec(header ?? "")?.[1] ?? "";
}
