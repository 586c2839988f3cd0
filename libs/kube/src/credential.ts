import type { KubeConfig } from "@kubernetes/client-node";

/** Whether the API server accepts a credential, by its answers. */
export type Credential = {
  /** The time of the first refusal since the credential was last accepted. */
  readonly refusedAtMs: number | undefined;
  /** It has been refused for so long that it does not recover by itself. */
  readonly isRefused: boolean;
};

/** Not refused so far. */
export const ACCEPTED: Credential = { refusedAtMs: undefined, isRefused: false };

/** An API server that starts does not know every account yet, and tokens are exchanged. Neither takes longer than this. */
export const REFUSED_AFTER_MS = 10_000;

/** The state after one more answer. A 5xx changes nothing: it does not depend on the credential, and may come from a proxy. */
export function decideCredential(known: Credential, status: number, nowMs: number): Credential {
  if (status >= 500) return known;
  if (status !== 401) return ACCEPTED;
  const refusedAtMs = known.refusedAtMs ?? nowMs;
  return { refusedAtMs, isRefused: known.isRefused || nowMs - refusedAtMs >= REFUSED_AFTER_MS };
}

/** The listeners by configuration: a KubeConfig has no field for one, and is all that the clients of one API server share. */
const watches = new WeakMap<KubeConfig, (status: number) => void>();

/** Call it with the status of each answer that is not retried immediately. */
export function recordAnswer(config: KubeConfig, status: number): void {
  watches.get(config)?.(status);
}

/** Calls `onChange` when the API server has refused the credential for REFUSED_AFTER_MS, and when it accepts it again. */
export function watchCredential(
  config: KubeConfig,
  onChange: (isRefused: boolean) => void,
  now: () => number = () => performance.now(),
): void {
  let known = ACCEPTED;
  watches.set(config, (status) => {
    const before = known;
    known = decideCredential(before, status, now());
    if (known.isRefused !== before.isRefused) onChange(known.isRefused);
  });
}
