import type { KubeConfig } from "@kubernetes/client-node";
import { watchCredential } from "./credential.ts";
import { loadKube } from "./load-kube.ts";

/** The context of a starting service; that of `@muster/service` fits. */
type KubeContext = {
  readonly logger: { info(fields: object, message: string): void; error(fields: object, message: string): void };
  alsoCheck(name: string, check: () => string | undefined): void;
};

/**
 * Loads the kubeconfig of a service. Once the API server has refused its credential (401) for 10 s, the log records the refusal once. The check `kubernetes` of
 * /readyz reports it until it ends. The service continues, and uses a renewed credential without a restart.
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
