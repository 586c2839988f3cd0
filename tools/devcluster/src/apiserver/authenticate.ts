import { createHash, timingSafeEqual } from "node:crypto";

/** Whether an Authorization header carries the token. Takes the same time for every header, whatever is wrong with it. */
export function isAuthorized(header: string | undefined, token: string): boolean {
  return token !== "" && timingSafeEqual(digest(bearerOf(header)), digest(token));
}

/** The token of an Authorization header; "" for none. */
export function bearerOf(header: string | undefined): string {
  return /^Bearer +(.*)$/i.exec(header ?? "")?.[1] ?? "";
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
