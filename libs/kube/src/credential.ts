import type { KubeConfig } from "@kubernetes/client-node";

/** What the answers of an API server say of a credential. */
export type Credential = {
  /** Of the first refusal since it was taken the last time. */
  readonly refusedAtMs: number | undefined;
  /** It has been refused for so long that it will not heal by itself. */
  readonly isRefused: boolean;
};

/** Nobody has been refused yet. */
export const TAKEN: Credential = { refusedAtMs: undefined, isRefused: false };

/** An API server that starts does not know every account yet, and one token is exchanged for another: neither takes longer. */
export const LASTING_MS = 10_000;

/** What is known after one more answer. One that says nothing of who asks (5xx: also a proxy's) changes nothing. */
export function decideCredential(known: Credential, status: number, nowMs: number): Credential {
  if (status >= 500) return known;
  if (status !== 401) return TAKEN;
  const refusedAtMs = known.refusedAtMs ?? nowMs;
  return { refusedAtMs, isRefused: known.isRefused || nowMs - refusedAtMs >= LASTING_MS };
}

/** A KubeConfig has no place for it, and is all that the ways to an API server have in common. */
const watches = new WeakMap<KubeConfig, (status: number) => void>();

/** To be called with the status of each answer that is not tried again at once. */
export function answered(config: KubeConfig, status: number): void {
  watches.get(config)?.(status);
}

/** Calls `onChange` when the API server has not taken the credential for a while, and when it takes it again. */
export function watchCredential(
  config: KubeConfig,
  onChange: (isRefused: boolean) => void,
  now: () => number = () => performance.now(),
): void {
  let known = TAKEN;
  watches.set(config, (status) => {
    const before = known;
    known = decideCredential(before, status, now());
    if (known.isRefused !== before.isRefused) onChange(known.isRefused);
  });
}
