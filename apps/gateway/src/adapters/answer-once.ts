import { randomUUID } from "node:crypto";
import { throwFault } from "@muster/faults";
import { isCreation, type Route } from "@muster/gateway-api";
import type { Asked } from "../api/read-request.ts";
import type { User } from "../api/user.ts";
import { buildRefusal, type Problem } from "../domain/build-problem.ts";
import { isFinal, type KeptAnswer } from "../domain/decide-repeat.ts";
import { digestOf, type KeptRequests } from "./kept-requests.ts";

export type Answer = KeptAnswer & { readonly retryAfterMs?: number };

const KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * Returns the answer of `ask`, or the answer that any gateway gave to an earlier request with this key. After a crash between request and answer, repeats the
 * request with its request id. Rejects with FaultError invalid_request for an invalid key, and as `KeptRequests` does.
 */
export async function answerOnce({
  route,
  user,
  asked,
  key,
  keptRequests,
  ask,
  refuse,
}: {
  readonly route: Route;
  readonly user: User;
  readonly asked: Asked;
  /** The header `Idempotency-Key`. */
  readonly key: string | readonly string[] | undefined;
  readonly keptRequests: KeptRequests;
  readonly ask: (requestId: string) => Promise<Answer>;
  readonly refuse: (problem: Problem) => Promise<Answer>;
}): Promise<Answer> {
  if (key === undefined) return ask(randomUUID());
  const digest = digestOfRequest(route, asked);
  // The services recognise a repeated change by its request id.
  if (!isCreation(route)) return ask(digestOf([user.name, user.uid ?? "", validKey(key), digest]));
  const begun = await keptRequests.begin(user, validKey(key), digest);
  switch (begun.kind) {
    case "answered":
      return begun.answer;
    case "differs": {
      const problem = buildRefusal("IDEMPOTENCY_KEY_REUSED", "another request had this Idempotency-Key; use a new key");
      return refuse(problem);
    }
    case "open": {
      const answer = await ask(begun.requestId);
      return isFinal(answer) ? begun.keep({ status: answer.status, body: answer.body }) : answer;
    }
  }
}

function validKey(key: string | readonly string[]): string {
  if (typeof key === "string" && KEY.test(key)) return key;
  const reason = "one key of 1 to 255 visible ASCII characters is needed, such as a UUID";
  return throwFault({ code: "invalid_request", field: "Idempotency-Key", reason });
}

function digestOfRequest({ http, path }: Route, { params, query, body }: Asked): string {
  return digestOf([http, path, params, Object.entries(query).toSorted(), body]);
}
