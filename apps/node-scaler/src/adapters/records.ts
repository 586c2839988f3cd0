import { findFault, throwFault } from "@muster/faults";
import type { Bucket, Entry, Modification, View } from "@muster/store";
import { checkHeld } from "./check-held.ts";
import { decideChange, type NodeChange } from "../domain/change-node.ts";
import type { ScaledNode } from "../domain/node.ts";

/** The records of nodes. Only the leader writes them: writes of a process that no longer leads reject with FaultError unavailable. */
export type NodeRecords = {
  /**
   * Resolves when every stored record is known here. Rejects with FaultError unavailable while the bucket cannot be followed or a record cannot be read: a
   * missing record then proves nothing.
   */
  checkCurrent(): Promise<void>;
  /** Returns the records sorted by name, including every write that this process has observed. */
  list(): readonly ScaledNode[];
  get(name: string): ScaledNode | undefined;
  /** Rejects with FaultError: already_exists, unavailable (it may have been written). */
  create(node: ScaledNode): Promise<void>;
  /**
   * Applies a change to the newest record; undefined if the record is gone, in another phase than expected, or already as desired. Rejects with FaultError:
   * invalid_request for an invalid phase change, conflict with a persistent other writer, unavailable (it may have been written).
   */
  changeNode(change: NodeChange): Promise<ScaledNode | undefined>;
  /** Deletes the record of a Terminated node. Rejects with FaultError: invalid_request for any other, conflict, unavailable. */
  purge(name: string): Promise<void>;
};

export type RecordsDeps = {
  readonly bucket: Pick<Bucket<ScaledNode>, "get" | "create" | "delete" | "modify">;
  readonly view: Pick<View<ScaledNode>, "get" | "entries" | "ageMs">;
  /** Keys with unreadable values. A key is removed once it is readable or deleted. */
  readonly unreadable: Set<string>;
  readonly now: () => number;
  /** Whether this process leads now. */
  readonly isHeld: () => boolean;
};

/** A write that the view does not show yet; a write without a node is a deletion. */
type Written = { readonly revision: number; readonly node: ScaledNode | undefined };

export function makeRecords({ bucket, view, unreadable, now, isHeld }: RecordsDeps): NodeRecords {
  const written = new Map<string, Written>();

  /** Returns the newer of the view and the own write. */
  const newest = (name: string): Entry<ScaledNode> | undefined => {
    const seen = view.get(name);
    const own = written.get(name);
    // The view shows a deleted name for a while and then drops it for good, because names are never reused.
    if (own !== undefined && own.node === undefined && seen === undefined) written.delete(name);
    if (own === undefined || (seen !== undefined && seen.revision >= own.revision && own.node !== undefined)) {
      written.delete(name);
      return seen;
    }
    return own.node && { key: name, value: own.node, revision: own.revision };
  };

  const remember = (name: string, entry: Entry<ScaledNode> | undefined): void => {
    if (entry === undefined) written.delete(name);
    else written.set(name, { revision: entry.revision, node: entry.value });
  };

  return {
    checkCurrent: async () => {
      const missing = (dependency: string): never => throwFault({ code: "unavailable", dependency, retryAfterMs: 0 });
      if (view.ageMs() > 0) missing("the view of the records of nodes");
      for (const name of unreadable) {
        await bucket.get(name).catch((error: unknown) => {
          if (findFault(error) !== undefined) throw error;
          missing(`the record of ${name}, which cannot be read,`);
        });
        unreadable.delete(name);
      }
    },
    list: () => {
      const names = new Set([...view.entries().map(({ key }) => key), ...written.keys()]);
      return [...names].sort().flatMap((name) => newest(name)?.value ?? []);
    },
    get: (name) => newest(name)?.value,
    create: async (node) => {
      checkHeld(isHeld);
      const revision = await bucket.create(node.name, node);
      written.set(node.name, { revision, node });
    },
    changeNode: async (change) => {
      const known = newest(change.node);
      if (known === undefined) return undefined;
      const decide = (current: ScaledNode | undefined): Modification<ScaledNode> => {
        const verdict = decideChange(current, change, now());
        if (verdict.kind === "refuse") return throwFault(verdict.fault);
        if (verdict.kind === "nothing") return { kind: "unchanged" };
        checkHeld(isHeld);
        return { kind: "put", value: verdict.node };
      };
      const { kind, entry } = await bucket.modify(change.node, decide, known);
      // The record from which the change began is already in the view or in `written`.
      if (entry !== known) remember(change.node, entry);
      return kind === "put" ? entry.value : undefined;
    },
    purge: async (name) => {
      const current = newest(name);
      if (current === undefined) return;
      const { phase } = current.value.status;
      if (phase !== "Terminated") {
        const reason = `a node of phase ${phase} cannot be purged`;
        throwFault({ code: "invalid_request", field: `node ${name}`, reason });
      }
      checkHeld(isHeld);
      await bucket.delete(name, current.revision);
      written.set(name, { revision: current.revision, node: undefined });
    },
  };
}
