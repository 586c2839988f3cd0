import { throwFault } from "@muster/faults";

/** Of a request_id: it goes into what is stored, and nobody signs it. */
const CHARACTERS_MAX = 128;

/** Refuses a request whose request_id is longer than 128 characters with invalid_request; one that has none is in order here. */
export function checkRequestId(request: object): void {
  const id: unknown = "requestId" in request ? request.requestId : undefined;
  if (typeof id !== "string" || id.length <= CHARACTERS_MAX) return;
  const reason = `has ${id.length} characters, and at most ${CHARACTERS_MAX} are taken`;
  throwFault({ code: "invalid_request", field: "request_id", reason });
}
