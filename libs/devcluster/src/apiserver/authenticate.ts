import { createHash, timingSafeEqual } from "node:crypto";

/** Whether an Authorization header carries the token. Takes the same time for every header, whatever is wrong with it. */
export function isAuthorized(header: string | undefined, token: string): boolean {
  const given = /^Bearer +(.*)$/i.exec(header ?? "")?.[1] ?? "";
  return token !== "" && timingSafeEqual(digest(given), digest(token));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
