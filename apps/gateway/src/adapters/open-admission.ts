import { kubeCalls, loadServiceKube } from "@muster/kube";
import type { ServiceContext } from "@muster/service";
import { firstThatKnows, type Authenticate, type Authorize } from "../api/user.ts";
import type { Config } from "../config.ts";
import { kubeAuthenticator, kubeAuthorizer, localAuthorizer } from "./kube-reviews.ts";
import { oidcAuthenticator } from "./oidc.ts";
import { localAuthenticator, openTokenFile } from "./token-file.ts";

export type Admission = AsyncDisposable & { readonly authenticate: Authenticate; readonly authorize: Authorize };

/** Who is known, and who decides about rights: the owner of the local token, the issuer, and the cluster, as far as each is configured. */
export async function openAdmission(context: ServiceContext<Config>): Promise<Admission> {
  const { tokenFile, kube, oidc } = context.config;
  await using opening = new AsyncDisposableStack();
  const calls = kube && opening.use(kubeCalls(loadServiceKube(context, kube.file)));
  const authenticators = [
    ...(tokenFile === undefined ? [] : [localAuthenticator(await openTokenFile(tokenFile))]),
    ...(oidc === undefined ? [] : [oidcAuthenticator(oidc)]),
    ...(calls === undefined ? [] : [kubeAuthenticator(calls, kube?.audience)]),
  ];
  const opened = opening.move();
  return {
    authenticate: firstThatKnows(authenticators),
    authorize: calls === undefined ? localAuthorizer : kubeAuthorizer(calls),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
