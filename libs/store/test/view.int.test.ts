import { jetstreamManager } from "@nats-io/jetstream";
import { natsServer, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { openBucket, openView } from "../src/index.ts";
import { connected, freshName, jsonCodec } from "./connected.ts";
import { link } from "./link.ts";

type Machine = { readonly name: string };
const codec = jsonCodec<Machine>();

it("holds the bucket in key order and tells which key changed", async () => {
  await using server = await natsServer();
  await using connection = await connected(server);
  const bucket = await openBucket(connection, { name: freshName("view"), codec });
  await bucket.create("b", { name: "b1" });
  const a = await bucket.create("a", { name: "a1" });
  await using view = await openView(bucket);
  expect(view.entries().map(({ key }) => key)).toEqual(["a", "b"]);
  expect(view.get("a")).toEqual({ key: "a", value: { name: "a1" }, revision: a });
  const changed: string[] = [];
  const stop = view.onChange((key) => changed.push(key));
  await bucket.create("aa", { name: "aa1" });
  await bucket.delete("a", a);
  await until("both changes are seen", () => changed.length === 2);
  expect(changed).toEqual(["aa", "a"]);
  expect(view.entries().map(({ key }) => key)).toEqual(["aa", "b"]);
  expect(view.ageMs()).toBe(0);
  stop();
  await bucket.create("c", { name: "c1" });
  await until("the view has it", () => view.get("c"));
  expect(changed).toHaveLength(2);
});

it("grows old while it is cut off, and finds out what went meanwhile", async () => {
  await using server = await natsServer();
  await using wire = await link(server);
  await using reader = await connected(wire.server);
  await using writer = await connected(server);
  const name = freshName("view");
  const bucket = await openBucket(reader, { name, codec });
  const other = await openBucket(writer, { name, codec });
  const stay = await other.create("stay", { name: "1" });
  const deleted = await other.create("deleted", { name: "1" });
  await other.create("purged", { name: "1" });
  let nowMs = 1000;
  await using view = await openView(bucket, { now: () => nowMs });
  const changed: string[] = [];
  view.onChange((key) => changed.push(key));
  wire.cut();
  nowMs += 700;
  await until("its age grows", () => view.ageMs() === 700);
  expect(view.get("stay")?.revision).toBe(stay);
  await other.delete("deleted", deleted);
  await other.create("new", { name: "1" });
  // Leaves no mark of deletion, so that only comparison finds it.
  const manager = await jetstreamManager(writer);
  await manager.streams.purge(`KV_${name}`, { filter: `$KV.${name}.purged` });
  wire.mend();
  await until("it is current", () => view.ageMs() === 0);
  expect(view.entries().map(({ key }) => key)).toEqual(["new", "stay"]);
  expect(changed.sort()).toEqual(["deleted", "new", "purged"]);
});

it("grows old when the server falls silent although the connection stands", async () => {
  await using server = await natsServer();
  await using wire = await link(server);
  await using connection = await connected(wire.server);
  const bucket = await openBucket(connection, { name: freshName("view"), codec });
  await using view = await openView(bucket);
  wire.freeze();
  await until("its age grows", () => view.ageMs() > 0);
  wire.mend();
  await until("it is current", () => view.ageMs() === 0);
});

it("starts anew with a bucket that was lost and made again", async () => {
  await using server = await natsServer();
  await using connection = await connected(server);
  const name = freshName("view");
  const bucket = await openBucket(connection, { name, codec });
  await bucket.create("old", { name: "1" });
  await bucket.create("both", { name: "before" });
  await using view = await openView(bucket);
  const manager = await jetstreamManager(connection);
  await manager.streams.delete(`KV_${name}`);
  const again = await openBucket(connection, { name, codec });
  await again.create("filler", { name: "1" });
  await again.create("both", { name: "after" });
  await until("it shows the new bucket", () => view.get("both")?.value.name === "after");
  expect(view.entries().map(({ key }) => key)).toEqual(["both", "filler"]);
});

it("gives up waiting for a bucket that it cannot reach when told to", async () => {
  await using server = await natsServer();
  const connection = await connected(server);
  const bucket = await openBucket(connection, { name: freshName("view"), codec });
  await server.kill();
  await expect(openView(bucket, { signal: AbortSignal.timeout(100) })).rejects.toThrow("timeout");
  await connection.close();
});
