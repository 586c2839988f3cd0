import { connectNats } from "@muster/bus";
import { findFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { openBucket, openView, type Bucket } from "@muster/store";
import { startTestNats, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { nodeCodec } from "../src/adapters/messages.ts";
import { makeRecords } from "../src/adapters/records.ts";
import { buildNode } from "./build-node.ts";

const stack = new AsyncDisposableStack();
let open: () => Promise<ReturnType<typeof makeRecords>>;
let isHeld = true;
let openRaw: () => Promise<Bucket<Uint8Array>>;

beforeAll(async () => {
  const nats = stack.use(await startTestNats());
  const bus = stack.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  open = async () => {
    const unreadable = new Set<string>();
    const onDecodeError = (_: Error, key: string) => unreadable.add(key);
    const bucket = await openBucket(bus.connection, { name: buckets.scaledNodes, codec: nodeCodec, onDecodeError });
    const view = stack.use(await openView(bucket));
    return makeRecords({ bucket, view, unreadable, now: () => 7, isHeld: () => isHeld });
  };
  openRaw = () => {
    const codec = { encode: (value: Uint8Array) => value, decode: (bytes: Uint8Array) => bytes };
    return openBucket(bus.connection, { name: buckets.scaledNodes, codec });
  };
});
afterAll(() => stack.disposeAsync());

const names = (records: ReturnType<typeof makeRecords>) => records.list().map(({ name }) => name);

it("shows its own writes immediately, and those of others soon", async () => {
  const [one, other] = [await open(), await open()];
  await one.create(buildNode("b-1"));
  await one.create(buildNode("a-1"));
  expect(names(one)).toEqual(["a-1", "b-1"]);
  await until("the other process has the records", () => names(other).length === 2);
  await one.changeNode({ node: "a-1", expected: "Available", phase: "Terminated" });
  expect(one.get("a-1")?.status).toMatchObject({ phase: "Terminated", phaseSinceMs: 7 });
  await one.purge("a-1");
  expect(names(one)).toEqual(["b-1"]);
  await until("the other process has observed the deletion", () => names(other).length === 1);
  expect(names(one)).toEqual(["b-1"]);
});

it("gives concurrent decisions for a claim and a stop to one of them", async () => {
  const [one, other] = [await open(), await open()];
  await one.create(buildNode("c-1"));
  await until("the other process has the record", () => other.get("c-1"));
  const claim = { owner: { kind: "job", id: "j" }, reservationId: "1", reached: false };
  const [claimed, stopped] = await Promise.all([
    one.changeNode({ node: "c-1", expected: "Available", phase: "Claimed", status: { claim } }),
    other.changeNode({ node: "c-1", expected: "Available", phase: "Terminating" }),
  ]);
  expect([claimed, stopped].filter((node) => node !== undefined)).toHaveLength(1);
});

it("refuses invalid phase changes, and deletes only ended records", async () => {
  const records = await open();
  await records.create(buildNode("d-1"));
  const wrong = records.changeNode({ node: "d-1", expected: "Available", phase: "Created" });
  expect(findFault(await wrong.catch((error: unknown) => error))).toMatchObject({
    code: "invalid_request",
    reason: "a node of phase Available cannot become Created",
  });
  await expect(records.purge("d-1")).rejects.toThrow("a node of phase Available cannot be purged");
  await expect(records.create(buildNode("d-1"))).rejects.toThrow("exists already");
});

it("is not current while a record is unreadable, until that is rewritten or deleted", async () => {
  const [records, raw] = [await open(), await openRaw()];
  await records.checkCurrent();
  const revision = await raw.create("e-1", new Uint8Array([255, 255, 255]));
  const isCurrent = () =>
    records.checkCurrent().then(
      () => true,
      () => false,
    );
  await until("the records are not current", async () => !(await isCurrent()));
  await expect(records.checkCurrent()).rejects.toThrow("the record of e-1, which cannot be read, is not available");
  const later = await open();
  await expect(later.checkCurrent()).rejects.toThrow("e-1");
  await raw.delete("e-1", revision);
  await records.checkCurrent();
  await later.checkCurrent();
});

it("writes nothing in a process that no longer leads", async () => {
  const records = await open();
  await records.create(buildNode("f-1"));
  await records.changeNode({ node: "f-1", expected: "Available", phase: "Terminated" });
  await records.create(buildNode("f-2"));
  isHeld = false;
  const refused = "the leadership of the nodes is not available";
  await expect(records.create(buildNode("f-3"))).rejects.toThrow(refused);
  await expect(records.changeNode({ node: "f-2", expected: "Available", phase: "Terminating" })).rejects.toThrow(
    refused,
  );
  await expect(records.purge("f-1")).rejects.toThrow(refused);
  isHeld = true;
  const left = (await open()).list().filter(({ name }) => name.startsWith("f-"));
  expect(left.map(({ name, status }) => [name, status.phase])).toEqual([
    ["f-1", "Terminated"],
    ["f-2", "Available"],
  ]);
});
