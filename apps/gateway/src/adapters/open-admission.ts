import { kubeCalls, loadServiceKube } from "@muster/kube";
import type { ServiceContext } from "@muster/service";
import { firstThatKnows, type Authenticate, type Authorize } from "../api/user.ts";
import type { Config } from "../config.ts";
import { kubeAuthenticator, kubeAuthorizer, localAuthorizer } from "./kube-reviews.ts";
import { oidcAuthenticator } from "./oidc.ts";
import { localAuthenticator, openTokenFile } from "./token-file.ts";

export type Admission = AsyncDisposable & {
  /** Users whom the gateway finds itself: the owner of the local token, and those of the issuer, whose keys it has. */
  readonly verify: Authenticate;
  /** Users whom the cluster finds, at the cost of a review. */
  readonly review: Authenticate;
  /** Both. */
  readonly authenticate: Authenticate;
  readonly authorize: Authorize;
};

/** Who is known, and who decides about rights: the owner of the local token, the issuer, and the cluster, as far as each is configured. */
export async function openAdmission(context: ServiceContext<Config>): Promise<Admission> {
  const { tokenFile, kube, oidc } = context.config;
  await using opening = new AsyncDisposableStack();
  const calls = kube && opening.use(kubeCalls(loadServiceKube(context, kube.file)));
  const verifiers = [
    ...(tokenFile === undefined ? [] : [localAuthenticator(await openTokenFile(tokenFile))]),
    ...(oidc === undefined ? [] : [oidcAuthenticator(oidc)]),
  ];
  const verify = firstThatKnows(verifiers);
  const review = calls === undefined ? firstThatKnows([]) : kubeAuthenticator(calls, kube?.audience);
  const opened = opening.move();
  return {
    verify,
    review,
    authenticate: firstThatKnows([verify, review]),
    authorize: calls === undefined ? localAuthorizer : kubeAuthorizer(calls),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
