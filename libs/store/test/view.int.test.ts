import { jetstreamManager } from "@nats-io/jetstream";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { openBucket, openView, type Change, type Watchable } from "../src/index.ts";
import { connectTo, makeFreshName, makeJsonCodec } from "./connected.ts";
import { link } from "./link.ts";

type Machine = { readonly name: string };
const codec = makeJsonCodec<Machine>();

it("holds the bucket in key order and reports which key changed", async () => {
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const bucket = await openBucket(connection, { name: makeFreshName("view"), codec });
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

it("drops a key whose deletion stopped between value and mark, without an interruption", async () => {
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const name = makeFreshName("view");
  const bucket = await openBucket(connection, { name, codec });
  const statuses: string[] = [];
  const checked: Watchable<Machine> = {
    watch: ({ onStatus, ...options }) =>
      bucket.watch({
        ...options,
        checkMs: 50,
        onStatus: (status) => {
          statuses.push(status);
          onStatus?.(status);
        },
      }),
  };
  await bucket.create("stay", { name: "1" });
  await bucket.create("gone", { name: "1" });
  await using view = await openView(checked);
  const changed: string[] = [];
  view.onChange((key) => changed.push(key));
  const manager = await jetstreamManager(connection);
  await manager.streams.purge(`KV_${name}`, { filter: `$KV.${name}.gone` });
  await until("the view has dropped it", () => view.get("gone") === undefined);
  await bucket.create("gone", { name: "2" });
  await until("the view has the next one", () => view.get("gone")?.value.name === "2");
  expect(changed).toEqual(["gone", "gone"]);
  expect(view.entries().map(({ key }) => key)).toEqual(["gone", "stay"]);
  expect(statuses).not.toContain("interrupted");
});

it("reports no change twice and no false one, however often it checks for missing keys", async () => {
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const bucket = await openBucket(connection, { name: makeFreshName("view"), codec });
  const stop = new AbortController();
  const changes: Change<Machine>[] = [];
  const read = async (): Promise<void> => {
    for await (const change of bucket.watch({ signal: stop.signal, checkMs: 1 })) changes.push(change);
  };
  const reading = read();
  const expected: string[] = [];
  for (let round = 0; round < 200; round += 1) {
    const key = `k${round % 5}`;
    const revision = await bucket.create(key, { name: `${round}` });
    await bucket.delete(key, revision);
    expected.push(`put ${key}`, `delete ${key}`);
  }
  const lines = () =>
    changes.flatMap((change) =>
      change.kind === "synced" ? [] : `${change.kind} ${change.kind === "put" ? change.entry.key : change.key}`,
    );
  await until("all is reported", () => lines().at(-1) === expected.at(-1) && lines().length >= 2);
  stop.abort();
  await reading;
  const puts = changes.flatMap((change) => (change.kind === "put" ? change.entry.revision : []));
  expect(new Set(puts).size).toBe(puts.length);
  for (const key of ["k0", "k1", "k2", "k3", "k4"]) {
    const own = lines().filter((each) => each.endsWith(key));
    expect(own).toEqual(own.map((_, index) => `${index % 2 === 0 ? "put" : "delete"} ${key}`));
  }
});

it("ages while it is cut off, and then finds the deletions in between", async () => {
  await using server = await startTestNats();
  await using wire = await link(server);
  await using reader = await connectTo(wire.server);
  await using writer = await connectTo(server);
  const name = makeFreshName("view");
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
  // Leaves no deletion mark, so that only comparison finds the deletion.
  const manager = await jetstreamManager(writer);
  await manager.streams.purge(`KV_${name}`, { filter: `$KV.${name}.purged` });
  wire.mend();
  await until("it is current", () => view.ageMs() === 0);
  expect(view.entries().map(({ key }) => key)).toEqual(["new", "stay"]);
  expect(changed.sort()).toEqual(["deleted", "new", "purged"]);
});

it("ages when the server falls silent although the connection is up", async () => {
  await using server = await startTestNats();
  await using wire = await link(server);
  await using connection = await connectTo(wire.server);
  const bucket = await openBucket(connection, { name: makeFreshName("view"), codec });
  await using view = await openView(bucket);
  wire.freeze();
  await until("its age grows", () => view.ageMs() > 0);
  wire.mend();
  await until("it is current", () => view.ageMs() === 0);
});

it("starts over with a recreated bucket", async () => {
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const name = makeFreshName("view");
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

it("stops waiting for an unreachable bucket at the signal", async () => {
  await using server = await startTestNats();
  const connection = await connectTo(server);
  const bucket = await openBucket(connection, { name: makeFreshName("view"), codec });
  await server.kill();
  await expect(openView(bucket, { signal: AbortSignal.timeout(100) })).rejects.toThrow("timeout");
  await connection.close();
});

it("continues after the server has refused its watch for a while", async () => {
  await using server = await startTestNats();
  await using wire = await link(server);
  await using reader = await connectTo(wire.server);
  await using writer = await connectTo(server);
  const name = makeFreshName("view");
  const stream = `KV_${name}`;
  const manager = await jetstreamManager(writer);
  await manager.streams.add({
    name: stream,
    subjects: [`$KV.${name}.>`],
    max_consumers: 1,
    max_msgs_per_subject: 1,
    allow_direct: true,
    allow_rollup_hdrs: true,
    allow_msg_ttl: true,
    discard: "new",
  });
  const bucket = await openBucket(reader, { name, codec });
  const other = await openBucket(writer, { name, codec });
  const deleted = await other.create("deleted", { name: "1" });
  const problems: unknown[] = [];
  const ends: unknown[] = [];
  await using view = await openView(bucket, {
    onProblem: (error) => problems.push(error),
    onEnd: (error) => ends.push(error),
  });
  // The old consumer cannot be deleted while the connection is cut, and the stream accepts no second one.
  wire.cut();
  await until("it notices", () => view.ageMs() > 0);
  await other.delete("deleted", deleted);
  wire.mend();
  await until("it is refused", () => problems.some((error) => String(error).includes("maximum consumers limit")));
  for await (const { name: consumer } of manager.consumers.list(stream))
    await manager.consumers.delete(stream, consumer);
  await other.create("new", { name: "1" });
  await until("it is current", () => view.ageMs() === 0 && view.get("new") !== undefined);
  expect(view.entries().map(({ key }) => key)).toEqual(["new"]);
  expect(ends).toEqual([]);
});

it("rejects immediately if it is refused from the start", async () => {
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const name = makeFreshName("view");
  const manager = await jetstreamManager(connection);
  const subjects = [`$KV.${name}.>`];
  await manager.streams.add({
    name: `KV_${name}`,
    subjects,
    max_consumers: 1,
    max_msgs_per_subject: 1,
    allow_direct: true,
  });
  const bucket = await openBucket(connection, { name, codec });
  await using _first = await openView(bucket);
  await expect(openView(bucket)).rejects.toThrow("maximum consumers limit");
});

it("calls its owner when it can no longer follow the bucket, but not when its owner ended it", async () => {
  const watching = Promise.withResolvers<undefined>();
  const ends: unknown[] = [];
  const onEnd = (error: unknown) => ends.push(error);
  const synced: Change<Machine> = { kind: "synced" };
  async function* broken() {
    yield synced;
    await watching.promise;
  }
  await using view = await openView({ watch: broken }, { onEnd, now: () => ends.length });
  const defect = new Error("a defect");
  watching.reject(defect);
  await until("the owner is called", () => ends.length > 0);
  expect(ends).toEqual([defect]);
  expect(view.ageMs()).toBeGreaterThan(0);

  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const bucket = await openBucket(connection, { name: makeFreshName("view"), codec });
  const disposed = await openView(bucket, { onEnd });
  await disposed[Symbol.asyncDispose]();
  const stop = new AbortController();
  await using _stopped = await openView(bucket, { onEnd, signal: stop.signal });
  stop.abort();
  await using closed = await openView(bucket, { onEnd });
  expect(closed.ageMs()).toBe(0);
  await connection.close();
  await until("the end of the connection is reported", () => ends.length > 1);
  expect(String(ends[1])).toContain("the connection is closed");
  expect(ends).toHaveLength(2);
});
