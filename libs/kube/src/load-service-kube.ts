import type { KubeConfig } from "@kubernetes/client-node";
import { watchCredential } from "./credential.ts";
import { loadKube } from "./load-kube.ts";

/** What a service knows when it starts to run: the context that `@muster/service` gives it fits. */
export type KubeContext = {
  readonly logger: { info(fields: object, message: string): void; error(fields: object, message: string): void };
  alsoCheck(name: string, check: () => string | undefined): void;
};

/**
 * `loadKube` for a service. An API server that does not take its credential (401) for 10 s is said once in the log, and by the check `kubernetes` of /readyz for as
 * long as it lasts. Nothing ends by it: a credential that is renewed in its place is found.
 */
export function loadServiceKube(
  { logger, alsoCheck }: KubeContext,
  file: string | undefined,
  now?: () => number,
): KubeConfig {
  const config = loadKube(file);
  const whose = file === undefined ? "the service account of this pod" : `the user of ${file}`;
  const detail = `the API server does not take this service's credential (401): renew that of ${whose}, which is read again without a restart`;
  let trouble: string | undefined;
  alsoCheck("kubernetes", () => trouble);
  watchCredential(
    config,
    (isRefused) => {
      trouble = isRefused ? detail : undefined;
      if (isRefused) logger.error({ detail }, "the API server refuses this service");
      else logger.info({}, "the API server takes this service's credential again");
    },
    now,
  );
  return config;
}
