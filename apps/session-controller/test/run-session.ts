import { runController, workQueue } from "@muster/controller";
import type { SessionPolicy } from "../src/domain/snapshot.ts";
import type { RunEnd, SessionDeps } from "../src/session-deps.ts";
import { makeSessions } from "../src/sessions.ts";
import type { makeFakeWorld } from "./fake-world.ts";

const RETRY = { firstMs: 1, maxMs: 1, perSecond: 1_000_000, burst: 1_000_000 };

/**
 * Runs the one session of a world in its own process, by the controller's runtime, until the run ends in one of the ways `endsAt` or the signal stops it. The
 * default is any end but a failure. Rejects with the error of the first failed pass, unless `onFailure` handles it.
 */
export async function runSession(
  world: Pick<ReturnType<typeof makeFakeWorld>, "onHint" | "maxRestMs">,
  deps: Omit<SessionDeps, "wake">,
  policy: SessionPolicy,
  signal: AbortSignal,
  more: {
    readonly maxFailures?: number;
    readonly endsAt?: readonly RunEnd[];
    readonly onFailure?: (error: unknown) => void;
    /** Called with each pause that a pass requests; "retry": the queue's own pause after a failure. */
    readonly onRest?: (ms: number | "retry") => void;
  } = {},
): Promise<RunEnd> {
  const queue = workQueue({ limits: RETRY });
  const over = new AbortController();
  const ended = Promise.withResolvers<RunEnd>();
  const { maxFailures = 5, endsAt, onFailure = ended.reject } = more;
  const left = (name: string, end: RunEnd): void => {
    deps.left(name, end);
    if (end === "stopped" || (endsAt?.includes(end) ?? end !== "failed")) ended.resolve(end);
  };
  const wake = (name: string): void => queue.add(name);
  const sessions = makeSessions({ ...deps, wake, left }, { session: policy, maxFailures });
  const stopHearing = world.onHint((hint) => {
    if (hint === "granted") sessions.granted("bench");
    queue.add("bench");
  });
  const stop = AbortSignal.any([signal, over.signal]);
  const reconcile: typeof sessions.reconcile = async (name, cut) => {
    const next = await sessions.reconcile(name, cut);
    if (next?.isFailed === true) more.onRest?.("retry");
    if (next?.requeueAfterMs === undefined) return next;
    more.onRest?.(next.requeueAfterMs);
    return { requeueAfterMs: Math.min(next.requeueAfterMs, world.maxRestMs) };
  };
  const running = runController({ name: "session", queue, reconcile, stop, onError: onFailure }).then(async () => {
    if (!signal.aborted) return;
    await sessions.stop(signal);
    ended.resolve("stopped");
  });
  queue.add("bench");
  try {
    return await ended.promise;
  } finally {
    over.abort();
    await running;
    stopHearing();
  }
}
