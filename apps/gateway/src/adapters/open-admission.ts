import { makeKubeCalls, loadServiceKube } from "@muster/kube";
import type { ServiceContext } from "@muster/service";
import { chainAuthenticators, type Authenticate, type Authorize } from "../api/user.ts";
import type { Config } from "../config.ts";
import { kubeAuthenticator, kubeAuthorizer, localAuthorizer } from "./kube-reviews.ts";
import { oidcAuthenticator } from "./oidc.ts";
import { localAuthenticator, openTokenFile } from "./token-file.ts";

export type Admission = AsyncDisposable & {
  /** Authenticates users without the cluster: the owner of the local token, and users of the issuer, whose keys the gateway holds. */
  readonly verify: Authenticate;
  /** Authenticates users with the cluster, at the cost of a review. */
  readonly review: Authenticate;
  /** Authenticates users with `verify` or `review`. */
  readonly authenticate: Authenticate;
  readonly authorize: Authorize;
};

function reportOutage({ logger }: Pick<ServiceContext<Config>, "logger">): (error: unknown) => void {
  return (error) => logger.warn({ err: error }, "the issuer of tokens does not answer");
}

/** Opens the configured authenticators and the authorizer: the owner of the local token, the issuer, and the cluster. */
export async function openAdmission(context: ServiceContext<Config>): Promise<Admission> {
  const { tokenFile, kube, oidc } = context.config;
  await using opening = new AsyncDisposableStack();
  const calls = kube && opening.use(makeKubeCalls(loadServiceKube(context, kube.file)));
  const verifiers = [
    ...(tokenFile === undefined ? [] : [localAuthenticator(await openTokenFile(tokenFile))]),
    ...(oidc === undefined ? [] : [oidcAuthenticator(oidc, { report: reportOutage(context) })]),
  ];
  const verify = chainAuthenticators(verifiers);
  const review = calls === undefined ? chainAuthenticators([]) : kubeAuthenticator(calls, kube?.audience);
  const opened = opening.move();
  return {
    verify,
    review,
    authenticate: chainAuthenticators([verify, review]),
    authorize: calls === undefined ? localAuthorizer : kubeAuthorizer(calls),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
