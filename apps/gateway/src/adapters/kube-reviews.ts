import { hash } from "node:crypto";
import { throwFault } from "@muster/faults";
import { toKubeFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { keepAnswers } from "../api/keep-answers.ts";
import type { Access, Authenticate, Authorize, User } from "../api/user.ts";

/** Maximum time after which a change of rights, or the end of a token, takes effect. */
const KEPT_MS = 10_000;
const MAX_TOKENS = 4096;
const MAX_RIGHTS = 16_384;
const TIMEOUT_MS = 5000;
const GROUP = "muster.dev";

type TokenReview = KubeObject & {
  readonly spec: { readonly token: string; readonly audiences?: readonly string[] };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly audiences?: readonly string[];
    readonly user?: {
      readonly username?: string;
      readonly uid?: string;
      readonly groups?: readonly string[];
      readonly extra?: Readonly<Record<string, readonly string[]>>;
    };
  };
};
type AccessReview = KubeObject & { readonly spec: object; readonly status?: { readonly allowed?: boolean } };

const TOKENS = { apiVersion: "authentication.k8s.io/v1", plural: "tokenreviews" };
const ACCESSES = { apiVersion: "authorization.k8s.io/v1", plural: "subjectaccessreviews" };

type Reviews = Pick<KubeCalls, "create">;
const monotonicMs = (): number => performance.now();

/** Authenticates users by tokens that the API server knows. A token must have the audience `audience`; undefined requires the audience of the API server. */
export function kubeAuthenticator(
  calls: Reviews,
  audience: string | undefined,
  nowMs: () => number = monotonicMs,
): Authenticate {
  const known = keepAnswers<User | undefined>({ keptMs: KEPT_MS, maxEntries: MAX_TOKENS, nowMs });
  return (token) => {
    // Only digests of tokens are stored.
    const key = hash("sha256", token, "base64");
    return known.get(key, () => reviewToken(calls, token, audience));
  };
}

async function reviewToken(calls: Reviews, token: string, audience: string | undefined): Promise<User | undefined> {
  const spec = { token, ...(audience !== undefined && { audiences: [audience] }) };
  const review: TokenReview = { apiVersion: TOKENS.apiVersion, kind: "TokenReview", metadata: {}, spec };
  const { status } = await asking("tokens", calls.create(TOKENS, review, { timeoutMs: TIMEOUT_MS }));
  if (status?.authenticated !== true || status.user?.username === undefined) return undefined;
  if (audience !== undefined && status.audiences?.includes(audience) !== true) return undefined;
  const { username: name, uid, groups = [], extra } = status.user;
  return { name, uid, groups, extra };
}

/** Authorizes by the roles of the cluster. */
export function kubeAuthorizer(calls: Reviews, nowMs: () => number = monotonicMs): Authorize {
  const known = keepAnswers<boolean>({ keptMs: KEPT_MS, maxEntries: MAX_RIGHTS, nowMs });
  return (user, access) => {
    if (user.isLocal === true) return Promise.resolve(true);
    return known.get(keyOf(user, access), () => reviewAccess(calls, user, access));
  };
}

/** Digests the user and the right, because a user with hundreds of groups asks for thousands of rights. */
function keyOf(user: User, access: Access): string {
  return hash("sha256", JSON.stringify([user, access]), "base64");
}

async function reviewAccess(calls: Reviews, user: User, access: Access): Promise<boolean> {
  const { name, uid, groups, extra } = user;
  const spec = { user: name, uid, groups, extra, resourceAttributes: { group: GROUP, ...access } };
  const review: AccessReview = { apiVersion: ACCESSES.apiVersion, kind: "SubjectAccessReview", metadata: {}, spec };
  const { status } = await asking("rights", calls.create(ACCESSES, review, { timeoutMs: TIMEOUT_MS }));
  return status?.allowed === true;
}

/** Reports every failure to the client as an outage. The cause of the error names a missing right for operators. */
async function asking<Review>(what: string, call: Promise<Review>): Promise<Review> {
  try {
    return await call;
  } catch (cause) {
    if (toKubeFault(cause) === undefined) throw cause;
    const dependency = `the Kubernetes API, which is asked for ${what},`;
    return throwFault({ code: "unavailable", dependency, retryAfterMs: 1000 }, { cause });
  }
}

/** Authorizes without a cluster: only the owner of the local token has rights. */
export const localAuthorizer: Authorize = ({ isLocal = false }) => Promise.resolve(isLocal);
