import type { Logger } from "@muster/service";
import type { FastifyRequest } from "fastify";
import type { FailedTokens } from "../api/failed-tokens.ts";
import type { Authenticate, User } from "../api/user.ts";
import { buildProblem, buildRefusal, type Problem } from "../domain/build-problem.ts";

export type ReviewParts = {
  readonly authenticate: Authenticate;
  readonly failedTokens: FailedTokens;
  readonly logger: Pick<Logger, "warn">;
};

/** Who has the token. Every path where a client can try tokens counts the unknown ones of its address here. */
export async function reviewToken(
  { ip: address }: FastifyRequest,
  token: string,
  { authenticate, failedTokens, logger }: ReviewParts,
): Promise<{ readonly user: User } | { readonly problem: Problem }> {
  const refusal = failedTokens.refusal(address, token);
  if (refusal !== undefined) {
    const { retryAfterMs, reportRefused } = refusal;
    if (reportRefused !== undefined)
      logger.warn({ address, refused: reportRefused }, "an address sends too many unknown tokens and is refused");
    const what = "the rate of unknown tokens";
    return { problem: buildProblem({ code: "limit_exceeded", what, limit: 0, retryAfterMs }) };
  }
  const user = await authenticate(token);
  failedTokens.record(address, token, user !== undefined);
  if (user !== undefined) return { user };
  return { problem: buildRefusal("UNAUTHENTICATED", "the token is unknown or expired") };
}
