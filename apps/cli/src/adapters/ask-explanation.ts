import { findFault } from "@muster/faults";
import type { muster } from "@muster/proto";
import { CommandError } from "../command-error.ts";
import type { ExplainedReservation } from "./explanation-messages.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { CALL_TIMEOUT_MS, STATUS_TIMEOUT_MS } from "./read-pages.ts";
import { toExplainedReservation } from "./explanation-messages.ts";

/** The timeout is long because a service that explains calls other services, each for up to a second. */
const EXPLAIN_TIMEOUT_MS = 6000;

type Answer = { readonly explanation: muster.explain.v1.Explanation | undefined };
type Options = { readonly timeoutMs: number; readonly signal: AbortSignal };

/**
 * Calls `explain` of the service that serves `area`. A service of an older version has only `get`: the command then fails and states that version as the
 * reason.
 */
export async function askExplanation(
  { service, area, stop }: { readonly service: string; readonly area: string; readonly stop: AbortSignal },
  explain: (options: Options) => Promise<Answer>,
  get: (options: Options) => Promise<unknown>,
): Promise<ExplainedReservation> {
  const answer = await unlessUnserved(area, explain({ timeoutMs: EXPLAIN_TIMEOUT_MS, signal: stop }));
  if (answer !== UNSERVED) return toExplainedReservation(answer.explanation);
  await get({ timeoutMs: CALL_TIMEOUT_MS, signal: stop });
  // The service may have started since the first call.
  const again = await unlessUnserved(area, explain({ timeoutMs: STATUS_TIMEOUT_MS, signal: stop }));
  if (again !== UNSERVED) return toExplainedReservation(again.explanation);
  throw buildTooOldError(service);
}

/** The error for a service whose version has no `explain`. */
export function buildTooOldError(service: string): CommandError {
  return new CommandError(EXIT.refused, `the ${service} is too old for this command: it cannot explain`, {
    hint: `update the ${service} to the version of this command`,
  });
}

const UNSERVED = Symbol("no replica serves the request");

async function unlessUnserved(area: string, answer: Promise<Answer>): Promise<Answer | typeof UNSERVED> {
  try {
    return await answer;
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code === "unavailable" && fault.dependency === area) return UNSERVED;
    throw error;
  }
}
