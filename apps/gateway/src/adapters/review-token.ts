import type { Logger } from "@muster/service";
import type { FastifyRequest } from "fastify";
import type { FailedTokens } from "../api/failed-tokens.ts";
import type { User } from "../api/user.ts";
import { buildProblem, buildRefusal, type Problem } from "../domain/build-problem.ts";
import type { Admission } from "./open-admission.ts";

export type ReviewParts = {
  readonly admission: Pick<Admission, "verify" | "review" | "authenticate">;
  readonly failedTokens: FailedTokens<User>;
  readonly logger: Pick<Logger, "warn">;
};

/**
 * Returns the user of a token. Every path that accepts tokens counts unknown tokens of an address here. A token that the gateway verifies itself is never
 * refused because of the count.
 */
export async function reviewToken(
  { ip: address }: FastifyRequest,
  token: string,
  { admission, failedTokens, logger }: ReviewParts,
): Promise<{ readonly user: User } | { readonly problem: Problem }> {
  const verified = await admission.verify(token);
  if (verified !== undefined) return { user: verified };
  const { user, refusal } = await failedTokens.review(address, token, () => admission.review(token));
  if (user !== undefined) return { user };
  if (refusal === undefined) return { problem: buildRefusal("UNAUTHENTICATED", "the token is unknown or expired") };
  const { retryAfterMs, reportRefused } = refusal;
  if (reportRefused !== undefined)
    logger.warn({ address, refused: reportRefused }, "an address sends too many unknown tokens and is refused");
  const what = "the rate of unknown tokens";
  return { problem: buildProblem({ code: "limit_exceeded", what, limit: 0, retryAfterMs }) };
}
