import { throwFault } from "@muster/faults";

/** Maximum length of a request_id; the id is stored, and not signed. */
const MAX_CHARACTERS = 128;

/** Refuses a request whose request_id is longer than 128 characters with invalid_request; a missing one is valid here. */
export function checkRequestId(request: object): void {
  const id: unknown = "requestId" in request ? request.requestId : undefined;
  if (typeof id !== "string" || id.length <= MAX_CHARACTERS) return;
  const reason = `has ${id.length} characters, and at most ${MAX_CHARACTERS} are taken`;
  throwFault({ code: "invalid_request", field: "request_id", reason });
}
