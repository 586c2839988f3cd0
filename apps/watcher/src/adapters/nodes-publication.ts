import type { Bucket, Entry, View } from "@muster/store";
import type { NodeState } from "../domain/node-state.ts";
import type { NodesMark } from "../domain/plan-mark.ts";
import { isNode, type NodeRecord } from "./messages.ts";
import { makePublication, type StatePublication } from "./publication.ts";

type Written = Pick<Bucket<NodeRecord>, "create" | "update" | "delete">;
type Seen<State> = Pick<View<State>, "get" | "entries">;
type OnFault = (error: unknown, step: { readonly key: string; readonly because: string }) => void;

/** Splits the node bucket into node states and the mark. Both come from one view, so the mark is never visible before its nodes. */
export function makeNodesPublication(
  bucket: Written,
  view: Seen<NodeRecord>,
  onFault: OnFault,
): { readonly nodes: StatePublication<NodeState>; readonly mark: StatePublication<NodesMark> } {
  return {
    nodes: makePublication<NodeState>(bucket, only(view, nodeOf), onFault),
    mark: makePublication<NodesMark>(bucket, only(view, markOf), onFault),
  };
}

function only<State>(view: Seen<NodeRecord>, pick: (record: NodeRecord) => State | undefined): Seen<State> {
  const narrow = ({ key, value, revision }: Entry<NodeRecord>): Entry<State> | undefined => {
    const picked = pick(value);
    return picked === undefined ? undefined : { key, value: picked, revision };
  };
  return {
    get: (key) => {
      const entry = view.get(key);
      return entry && narrow(entry);
    },
    entries: () => view.entries().flatMap((entry) => narrow(entry) ?? []),
  };
}

function nodeOf(record: NodeRecord): NodeState | undefined {
  return isNode(record) ? record : undefined;
}

function markOf(record: NodeRecord): NodesMark | undefined {
  return isNode(record) ? undefined : record;
}
