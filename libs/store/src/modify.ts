import { retryOnConflict } from "@muster/backoff";
import type { Entry } from "./watch.ts";

/** The modification of a key, decided on its current value. */
export type Modification<Input> =
  { readonly kind: "put"; readonly value: Input } | { readonly kind: "delete" } | { readonly kind: "unchanged" };

/** The outcome of `modify`, and the entry after it; undefined: the key does not exist. If `decide` keeps `known` unchanged, the entry is `known` itself. */
type Modified<Value, Input> =
  | { readonly kind: "put"; readonly entry: Entry<Input> }
  | { readonly kind: "delete"; readonly entry: undefined }
  | { readonly kind: "unchanged"; readonly entry: Entry<Value> | undefined };

/** The operations of a bucket on one key that `modify` needs. */
export type SingleKey<Value, Input> = {
  get(key: string): Promise<Entry<Value> | undefined>;
  create(key: string, value: Input): Promise<number>;
  update(key: string, value: Input, expectedRevision: number): Promise<number>;
  delete(key: string, expectedRevision: number): Promise<void>;
};

/**
 * Puts, deletes or keeps the value of a key, as `decide` returns for the current one. Calls `decide` with the newer value if another writer came first.
 * `decide` is pure; its errors reject. `known`, such as the entry of a view, saves the first read and may be stale. Rejects with conflict or already_exists,
 * its message naming the key, after 20 attempts. After unavailable the write may have happened: a second call passes the stored value to `decide`.
 */
export type ModifyKey<Value, Input> = (
  key: string,
  decide: (current: Value | undefined) => Modification<Input>,
  known?: Entry<Value>,
) => Promise<Modified<Value, Input>>;

/** Builds `modify` on the other operations of a bucket: of JetStream, of the simulation, or of a test. */
export function makeModify<Value, Input>(bucket: SingleKey<Value, Input>): ModifyKey<Value, Input> {
  const put = async (key: string, before: Entry<Value> | undefined, value: Input): Promise<Modified<Value, Input>> => {
    const written = before === undefined ? bucket.create(key, value) : bucket.update(key, value, before.revision);
    return { kind: "put", entry: { key, value, revision: await written } };
  };
  const remove = async ({ key, revision }: Entry<Value>): Promise<Modified<Value, Input>> => {
    await bucket.delete(key, revision);
    return { kind: "delete", entry: undefined };
  };
  return (key, decide, known) =>
    retryOnConflict<Modified<Value, Input>>(
      key,
      async (attempt) => {
        const entry = attempt === 1 && known !== undefined ? known : await bucket.get(key);
        const modification = decide(entry?.value);
        if (modification.kind === "put") return { write: () => put(key, entry, modification.value) };
        if (modification.kind === "delete" && entry !== undefined) return { write: () => remove(entry) };
        return { unchanged: { kind: "unchanged", entry } };
      },
      { codes: ["conflict", "already_exists"] },
    );
}
