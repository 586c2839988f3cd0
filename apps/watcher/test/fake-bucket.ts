import { throwFault } from "@muster/faults";
import type { Bucket, Entry, View } from "@muster/store";

/** A bucket in memory with revisions, whose views can lag and whose writes can fail. */
export function makeFakeBucket<State>() {
  const entries = new Map<string, Entry<State>>();
  let revision = 0;
  let attempts = 0;
  let failing = 0;
  let lag: readonly Entry<State>[] | undefined;
  let waiting = Promise.withResolvers<undefined>();

  const attempt = async (key: string, expected: number | undefined, apply: () => void): Promise<void> => {
    attempts += 1;
    await Promise.resolve();
    if (failing > 0) {
      failing -= 1;
      throwFault({ code: "unavailable", dependency: "jetstream", retryAfterMs: 1 });
    }
    const actual = entries.get(key)?.revision;
    if (actual !== expected) {
      throwFault(
        expected === undefined
          ? { code: "already_exists", kind: "key", id: key }
          : { code: "conflict", id: key, expectedRevision: expected, actualRevision: actual ?? 0 },
      );
    }
    apply();
    waiting.resolve(undefined);
    waiting = Promise.withResolvers();
  };
  const put = (key: string, value: State) => () => {
    revision += 1;
    entries.set(key, { key, value, revision });
  };
  const visible = (): readonly Entry<State>[] => lag ?? [...entries.values()];

  return {
    create: async (key: string, value: State) => {
      await attempt(key, undefined, put(key, value));
      return revision;
    },
    update: async (key: string, value: State, expected: number) => {
      await attempt(key, expected, put(key, value));
      return revision;
    },
    delete: (key: string, expected: number) => attempt(key, expected, () => entries.delete(key)),
    view: (): Pick<View<State>, "get" | "entries"> => ({
      get: (key) => visible().find((entry) => entry.key === key),
      entries: visible,
    }),
    value: (key: string): State | undefined => entries.get(key)?.value,
    revision: (key: string): number | undefined => entries.get(key)?.revision,
    get attempts() {
      return attempts;
    },
    /** Views show the present content until `catchUp`. */
    delay: () => {
      lag = [...entries.values()];
    },
    catchUp: () => {
      lag = undefined;
    },
    failNext: (count: number) => {
      failing = count;
    },
    nextWrite: () => waiting.promise,
  } satisfies Pick<Bucket<State>, "create" | "update" | "delete"> & Record<string, unknown>;
}
