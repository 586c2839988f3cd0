import { throwFault } from "@muster/faults";
import type { Bucket, Entry, View } from "@muster/store";

/** Creates a bucket in memory with its view, which outlives the scalers that use it. */
export function makeMemoryBucket<Value>(): {
  readonly bucket: Pick<Bucket<Value>, "get" | "create" | "update" | "delete">;
  readonly view: Pick<View<Value>, "get" | "entries" | "ageMs">;
} {
  const entries = new Map<string, Entry<Value>>();
  let revision = 0;
  const put = (key: string, value: Value): number => {
    revision += 1;
    entries.set(key, { key, value, revision });
    return revision;
  };
  const expect = (key: string, expectedRevision: number): void => {
    const actualRevision = entries.get(key)?.revision ?? 0;
    if (actualRevision !== expectedRevision)
      throwFault({ code: "conflict", id: key, expectedRevision, actualRevision });
  };
  return {
    bucket: {
      get: (key) => Promise.resolve(entries.get(key)),
      create: async (key, value) => {
        await Promise.resolve();
        if (entries.has(key)) throwFault({ code: "already_exists", kind: "key", id: key });
        return put(key, value);
      },
      update: async (key, value, expectedRevision) => {
        await Promise.resolve();
        expect(key, expectedRevision);
        return put(key, value);
      },
      delete: async (key, expectedRevision) => {
        await Promise.resolve();
        expect(key, expectedRevision);
        entries.delete(key);
      },
    },
    view: { get: (key) => entries.get(key), entries: () => [...entries.values()], ageMs: () => 0 },
  };
}
