import type { Change, Watchable } from "@muster/store";
import type { PodWatchEvent } from "../src/subscriptions/pod-watch-event.ts";

type Sent = { readonly change: Change<PodWatchEvent> } | { readonly status: "current" | "interrupted" };

/** A bucket of pod states that reports as the real one: every key first, then "synced"; after an interruption the differences. */
export function makeFakeStates() {
  const truth = new Map<string, PodWatchEvent>();
  const reported = new Map<string, number>();
  const revisions = new Map<string, number>();
  const sent: Sent[] = [{ status: "current" }, { change: { kind: "synced" } }];
  let revision = 0;
  let connected = true;
  let failure: Error | undefined;
  let wake = Promise.withResolvers<undefined>();
  const send = (what: Sent): void => {
    sent.push(what);
    wake.resolve(undefined);
  };
  const report = (key: string): void => {
    const value = truth.get(key);
    const known = revisions.get(key) ?? 0;
    if (value === undefined) {
      if (reported.delete(key)) send({ change: { kind: "delete", key, revision } });
    } else if (reported.get(key) !== known) {
      reported.set(key, known);
      send({ change: { kind: "put", entry: { key, value, revision: known } } });
    }
  };
  const change = (key: string): void => {
    revision += 1;
    revisions.set(key, revision);
    if (connected) report(key);
  };

  return {
    truth,
    put: (event: PodWatchEvent) => {
      const key = `${event.owner.kind}.${event.owner.id}.${event.pod}`;
      truth.set(key, event);
      change(key);
    },
    forget: (key: string) => {
      if (truth.delete(key)) change(key);
    },
    interrupt: () => {
      if (!connected) return;
      connected = false;
      send({ status: "interrupted" });
    },
    resume: () => {
      if (connected) return;
      connected = true;
      for (const key of new Set([...truth.keys(), ...reported.keys()])) report(key);
      send({ status: "current" });
    },
    fail: (error: Error) => {
      failure = error;
      wake.resolve(undefined);
    },
    bucket: {
      watch: async function* ({ signal, onStatus }) {
        const stop = (): void => wake.resolve(undefined);
        signal.addEventListener("abort", stop);
        for (;;) {
          const next = sent.shift();
          if (next === undefined) {
            if (failure !== undefined) throw failure;
            if (signal.aborted) return;
            await wake.promise;
            wake = Promise.withResolvers();
          } else if ("status" in next) onStatus?.(next.status);
          else yield next.change;
        }
      },
    } satisfies Watchable<PodWatchEvent>,
  };
}
