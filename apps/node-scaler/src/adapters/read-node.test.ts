import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { readNode } from "./read-node.ts";

const read = (parts: Partial<muster.watch.v1.NodeState>) =>
  readNode(muster.watch.v1.NodeState.create({ name: "k", uid: "u", ready: true, ...parts }), "muster");

it.each([
  ["of this scaler", { "muster.dev/node": "n", "muster.dev/scaler": "muster" }, "n"],
  ["that names no scaler", { "muster.dev/node": "n" }, "n"],
  ["of another scaler", { "muster.dev/node": "n", "muster.dev/scaler": "second" }, undefined],
  ["with an empty name", { "muster.dev/node": "", "muster.dev/scaler": "muster" }, undefined],
  ["without a record", {}, undefined],
])("has the record of a node %s", (_, labels, scaledNode) => {
  expect(read({ labels })).toMatchObject({ name: "k", scaledNode });
});

it("returns nothing for a deleted node, and for the mark", () => {
  expect([read({ deleted: true }), read({ name: "" })]).toEqual([undefined, undefined]);
});
