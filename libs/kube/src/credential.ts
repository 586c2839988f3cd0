import type { KubeConfig } from "@kubernetes/client-node";

/** Whether the API server accepts a credential, judged by its answers. */
export type Credential = {
  /** The time of the first refusal since the credential was last accepted. */
  readonly refusedAtMs: number | undefined;
  /** True once the refusal has lasted too long to end without an operator. */
  readonly isRefused: boolean;
};

export const ACCEPTED: Credential = { refusedAtMs: undefined, isRefused: false };

/** Longer than a starting API server takes to know every account, and longer than an exchange of tokens. */
export const REFUSED_AFTER_MS = 10_000;

/** Returns the state after one more answer. A 5xx changes nothing: it does not depend on the credential, and may come from a proxy. */
export function decideCredential(known: Credential, status: number, nowMs: number): Credential {
  if (status >= 500) return known;
  if (status !== 401) return ACCEPTED;
  const refusedAtMs = known.refusedAtMs ?? nowMs;
  return { refusedAtMs, isRefused: known.isRefused || nowMs - refusedAtMs >= REFUSED_AFTER_MS };
}

/** The listeners by configuration. A KubeConfig has no field for a listener, and the clients of one API server share only that object. */
const watches = new WeakMap<KubeConfig, (status: number) => void>();

/** Records the status of an answer that is not retried immediately. */
export function recordAnswer(config: KubeConfig, status: number): void {
  watches.get(config)?.(status);
}

/** Calls `onChange` after the API server has refused the credential for REFUSED_AFTER_MS, and after it accepts it again. */
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
