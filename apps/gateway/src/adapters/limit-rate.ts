import type { RequestRates } from "@muster/bus";
import type { Logger } from "@muster/service";
import type { User } from "../api/user.ts";
import { buildProblem, type Problem } from "../domain/build-problem.ts";

export type RateParts = {
  /** Limits the requests of each user. */
  readonly rates: RequestRates;
  readonly logger: Pick<Logger, "warn">;
};

/** Counts requests of the user. Returns a problem if the requests exceed the rate. */
export function limitRate({ name }: User, { rates, logger }: RateParts, requests = 1): Problem | undefined {
  const refusal = rates.take(name, performance.now(), requests);
  if (refusal === undefined) return undefined;
  const { user, retryAfterMs, reportRefused } = refusal;
  if (reportRefused !== undefined)
    logger.warn({ user, refused: reportRefused }, "a user asks too often and is refused");
  return buildProblem({ code: "limit_exceeded", what: "the rate of your requests", limit: 0, retryAfterMs });
}
