import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { throwFault } from "@muster/faults";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BucketConfig } from "../src/bucket.ts";
import { makeModify, openBucket, type Bucket, type Change, type Modification } from "../src/index.ts";
import { connectTo, makeFreshName, makeJsonCodec } from "./connected.ts";

type Machine = { readonly name: string; readonly gpus?: number };

let server: TestNats;
let connection: NatsConnection;

beforeAll(async () => {
  server = await startTestNats();
  connection = await connectTo(server);
});
afterAll(async () => {
  await connection.close();
  await server[Symbol.asyncDispose]();
});

function machines(config: Partial<BucketConfig<Machine>> = {}): Promise<Bucket<Machine>> {
  return openBucket(connection, { name: makeFreshName("machines"), codec: makeJsonCodec<Machine>(), ...config });
}

/** Collects the reports of a watch until it is stopped. */
function collect(bucket: Bucket<Machine>, filter?: string): { changes: string[]; stop: () => Promise<void> } {
  const changes: string[] = [];
  const stop = new AbortController();
  const read = async (): Promise<void> => {
    for await (const change of bucket.watch({ signal: stop.signal, ...(filter !== undefined && { filter }) }))
      changes.push(line(change));
  };
  const reading = read();
  return {
    changes,
    stop: async () => {
      stop.abort();
      await reading;
    },
  };
}

function line(change: Change<Machine>): string {
  switch (change.kind) {
    case "put":
      return `put ${change.entry.key} ${change.entry.value.name}`;
    case "delete":
      return `delete ${change.key}`;
    case "synced":
      return "synced";
  }
}

describe("writing", () => {
  it("returns what was written, with its revision", async () => {
    const bucket = await machines();
    const revision = await bucket.create("rack.1", { name: "one" });
    expect(await bucket.get("rack.1")).toEqual({ key: "rack.1", value: { name: "one" }, revision });
    expect(await bucket.get("rack.2")).toBeUndefined();
  });

  it("refuses to create an existing key, and creates it again after its deletion", async () => {
    const bucket = await machines();
    const revision = await bucket.create("a", { name: "one" });
    await expect(bucket.create("a", { name: "two" })).rejects.toMatchObject({
      fault: { code: "already_exists", id: "a" },
    });
    await bucket.delete("a", revision);
    expect(await bucket.get("a")).toBeUndefined();
    const again = await bucket.create("a", { name: "two" });
    expect(again).toBeGreaterThan(revision);
    expect((await bucket.get("a"))?.value).toEqual({ name: "two" });
  });

  it("lets exactly one of many concurrent updates of a revision win", async () => {
    const bucket = await machines();
    const revision = await bucket.create("a", { name: "start" });
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) => bucket.update("a", { name: `writer-${index}` }, revision)),
    );
    expect(results.filter((result) => result.status === "fulfilled")).toHaveLength(1);
    for (const result of results)
      if (result.status === "rejected")
        expect(result.reason).toMatchObject({ fault: { code: "conflict", expectedRevision: revision } });
  });

  it("refuses to update or delete a concurrently changed or deleted key", async () => {
    const bucket = await machines();
    const first = await bucket.create("a", { name: "one" });
    const second = await bucket.update("a", { name: "two" }, first);
    const conflict = { fault: { code: "conflict", expectedRevision: first } };
    await expect(bucket.update("a", { name: "three" }, first)).rejects.toMatchObject(conflict);
    await expect(bucket.delete("a", first)).rejects.toMatchObject(conflict);
    await bucket.delete("a", second);
    await expect(bucket.delete("a", second)).rejects.toMatchObject({ fault: { code: "conflict" } });
    await expect(bucket.update("a", { name: "three" }, second)).rejects.toMatchObject({ fault: { code: "conflict" } });
    await expect(bucket.update("a", { name: "x" }, 0)).rejects.toMatchObject({ fault: { code: "invalid_request" } });
  });

  it.each(["", ".", "a..b", "a.", ".a", "a b", "*", "a.>", "a.*", "ä", "x".repeat(513)])(
    "refuses the key %j before anything is sent",
    async (key) => {
      const bucket = await machines();
      await expect(bucket.create(key, { name: "x" })).rejects.toMatchObject({
        fault: { code: "invalid_request", field: "key" },
      });
    },
  );

  it("names the value and the bucket of an oversized value, its size and the limit", async () => {
    const bucket = await machines({ maxValueBytes: 100 });
    await expect(bucket.create("big", { name: "x".repeat(200) })).rejects.toMatchObject({
      fault: { code: "limit_exceeded", what: `value of ${bucket.name}/big with 211 bytes`, limit: 100 },
    });
    const exact = await bucket.create("fits", { name: "x".repeat(89) });
    expect((await bucket.get("fits"))?.revision).toBe(exact);
  });

  it("refuses a value above the limit of the server, whatever the bucket allows", async () => {
    const bucket = await machines({ maxValueBytes: 100_000_000 });
    await expect(bucket.create("big", { name: "x".repeat(2_000_000) })).rejects.toMatchObject({
      fault: { code: "limit_exceeded" },
    });
  });

  it("reports a full bucket, and can still delete from it", async () => {
    const { name } = await machines({ maxBytes: 4096, maxValueBytes: 1024 });
    // A caller without limits gets those of the bucket.
    const bucket = await machines({ name, fullRetryAfterMs: 70 });
    const revisions: number[] = [];
    const fill = async (): Promise<void> => {
      for (let index = 0; ; index += 1) revisions.push(await bucket.create(`k${index}`, { name: "x".repeat(900) }));
    };
    await expect(fill()).rejects.toMatchObject({
      fault: { code: "limit_exceeded", what: `size of bucket ${bucket.name}`, limit: 4096, retryAfterMs: 70 },
    });
    for (const [index, revision] of revisions.entries()) await bucket.delete(`k${index}`, revision);
    expect(await bucket.list()).toEqual([]);
  });
});

describe("opening", () => {
  it("works from concurrent callers and finds existing entries", async () => {
    const name = makeFreshName("shared");
    const opened = await Promise.all(Array.from({ length: 8 }, () => machines({ name })));
    await opened[0]?.create("a", { name: "one" });
    expect(await opened[7]?.list()).toHaveLength(1);
  });

  it("sets the given limits and keeps the others", async () => {
    const name = makeFreshName("limits");
    await machines({ name, ttlMs: 60_000 });
    await machines({ name });
    await machines({ name, maxValueBytes: 1000 });
    const manager = await jetstreamManager(connection);
    const { config } = await manager.streams.info(`KV_${name}`);
    expect(config.max_age).toBe(60_000 * 1e6);
    expect(config.max_msg_size).toBe(1000 + 1024);
  });

  it("refuses an invalid name", async () => {
    await expect(machines({ name: "a.b" })).rejects.toMatchObject({ fault: { code: "invalid_request" } });
  });
});

describe("listing", () => {
  it("returns matching entries in key order, without deleted ones", async () => {
    const bucket = await machines();
    const keys = ["b.2", "a.10", "a.2.x", "a.1", "c"];
    for (const key of keys) await bucket.create(key, { name: key });
    const gone = await bucket.create("a.3", { name: "gone" });
    await bucket.delete("a.3", gone);
    const listed = async (filter?: string): Promise<string[]> => (await bucket.list(filter)).map(({ key }) => key);
    expect(await listed()).toEqual(["a.1", "a.10", "a.2.x", "b.2", "c"]);
    expect(await listed("a.*")).toEqual(["a.1", "a.10"]);
    expect(await listed("a.>")).toEqual(["a.1", "a.10", "a.2.x"]);
    expect(await listed("*.2")).toEqual(["b.2"]);
    expect(await listed("nothing.>")).toEqual([]);
    await expect(bucket.list("a.>.b")).rejects.toMatchObject({ fault: { code: "invalid_request", field: "filter" } });
  });

  it("returns thousands of large entries", async () => {
    const bucket = await machines();
    await Promise.all(
      Array.from({ length: 2000 }, (_, index) => bucket.create(`n.${index}`, { name: "x".repeat(8000), gpus: index })),
    );
    const entries = await bucket.list("n.*");
    expect(new Set(entries.map(({ value }) => value.gpus)).size).toBe(2000);
  });
});

describe("values that do not decode", () => {
  it("are a defect for get; list and watch omit and report them", async () => {
    const reported: string[] = [];
    const bucket = await machines({ onDecodeError: (error) => reported.push(error.message) });
    await bucket.create("good", { name: "good" });
    const bad = await bucket.create("bad", { name: "bad" });
    const watched = collect(bucket);
    await until("the watch has caught up", () => watched.changes.includes("synced"));
    await connection.request(`$KV.${bucket.name}.bad`, "{");
    await until("the watch has reported it", () => watched.changes.includes("delete bad"));
    await watched.stop();
    expect((await bucket.list()).map(({ key }) => key)).toEqual(["good"]);
    expect(reported).toEqual(Array(2).fill(`decoding ${bucket.name}/bad at revision ${bad + 1}`));
    await expect(bucket.get("bad")).rejects.toThrow(`decoding ${bucket.name}/bad at revision ${bad + 1}`);
  });
});

describe("modifying", () => {
  const put = (name: string) => () => ({ kind: "put", value: { name } }) as const;
  const known = { key: "a", value: { name: "stale" }, revision: 1 };

  it.each<[string, string | undefined, Modification<Machine>, string | undefined]>([
    ["creates a key that does not exist", undefined, { kind: "put", value: { name: "new" } }, "new"],
    ["replaces a value", "old", { kind: "put", value: { name: "new" } }, "new"],
    ["deletes a key", "old", { kind: "delete" }, undefined],
    ["leaves a value", "old", { kind: "unchanged" }, "old"],
    ["leaves a key that does not exist", undefined, { kind: "unchanged" }, undefined],
    ["has nothing to delete where no key exists", undefined, { kind: "delete" }, undefined],
  ])("%s", async (_what, before, modification, after) => {
    const bucket = await machines();
    if (before !== undefined) await bucket.create("a", { name: before });
    const decided: (string | undefined)[] = [];
    const { entry } = await bucket.modify("a", (current) => {
      decided.push(current?.name);
      return modification;
    });
    expect(decided).toEqual([before]);
    expect(await bucket.get("a")).toEqual(entry);
    expect(entry?.value.name).toBe(after);
  });

  it("creates a key again after it was deleted", async () => {
    const bucket = await machines();
    await bucket.delete("a", await bucket.create("a", { name: "first" }));
    const second = { name: "second" };
    expect(await bucket.modify("a", put("second"))).toMatchObject({ kind: "put", entry: { value: second } });
  });

  it("decides on a known entry without reading, and reads once that is stale", async () => {
    const bucket = await machines();
    await bucket.create("other", { name: "so that no revision is as the known one" });
    await bucket.create("a", { name: "stored" });
    const decided: (string | undefined)[] = [];
    const decide = (current: Machine | undefined): Modification<Machine> => {
      decided.push(current?.name);
      return { kind: "put", value: { name: `after ${current?.name ?? "nothing"}` } };
    };
    await bucket.modify("a", decide, known);
    expect(decided).toEqual(["stale", "stored"]);
    expect((await bucket.get("a"))?.value.name).toBe("after stored");
    expect(await bucket.modify("a", () => ({ kind: "unchanged" }), known)).toEqual({ kind: "unchanged", entry: known });
  });

  it("rejects with what `decide` throws, a conflict included, and asks once", async () => {
    const bucket = await machines();
    const fault = { code: "conflict", id: "the caller's", expectedRevision: 1, actualRevision: 2 } as const;
    const asked = { count: 0 };
    const refused = bucket.modify("a", () => {
      asked.count += 1;
      return throwFault(fault);
    });
    await expect(refused).rejects.toMatchObject({ fault });
    expect(asked.count).toBe(1);
  });

  it("names the key when other writers always come first", async () => {
    const bucket = await machines();
    await bucket.create("a", { name: "0" });
    const conflict = { code: "conflict", id: "a", expectedRevision: 1, actualRevision: 0 } as const;
    const modify = makeModify<Machine, Machine>({ ...bucket, update: () => throwFault(conflict) });
    const lost = "changing a: other writers came first 20 times";
    await expect(modify("a", put("never"))).rejects.toThrow(lost);
  });

  it("loses no modification of concurrent writers", async () => {
    const bucket = await machines();
    const additionsOfWriters = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(additionsOfWriters, async (additions) => {
        const key = makeFreshName("sum");
        // A sum of 0 has no key, so that writers also create and delete the key.
        const add = (addition: number) =>
          bucket.modify(key, (current) => {
            const gpus = (current?.gpus ?? 0) + addition;
            if (addition === 0) return { kind: "unchanged" };
            return gpus === 0 ? { kind: "delete" } : { kind: "put", value: { name: "sum", gpus } };
          });
        await Promise.all(additions.map(add));
        const sum = additions.reduce((total, addition) => total + addition, 0);
        expect((await bucket.get(key))?.value.gpus ?? 0).toBe(sum);
      }),
      { numRuns: 25 },
    );
  });
});

describe("watching", () => {
  it("reports the present entries, then their end, then every change", async () => {
    const bucket = await machines();
    const a = await bucket.create("a", { name: "one" });
    const watched = collect(bucket);
    await until("it has caught up", () => watched.changes.includes("synced"));
    const second = await bucket.update("a", { name: "two" }, a);
    await bucket.create("b", { name: "three" });
    await bucket.delete("a", second);
    await until("everything is reported", () => watched.changes.includes("delete a"));
    await watched.stop();
    expect(watched.changes).toEqual(["put a one", "synced", "put a two", "put b three", "delete a"]);
  });

  it("reports immediately that an empty part of the bucket is complete", async () => {
    const bucket = await machines();
    await bucket.create("other.a", { name: "x" });
    const watched = collect(bucket, "mine.>");
    await until("it has caught up", () => watched.changes.length > 0);
    await bucket.create("other.b", { name: "y" });
    await bucket.create("mine.a", { name: "z" });
    await until("the change is reported", () => watched.changes.length > 1);
    await watched.stop();
    expect(watched.changes).toEqual(["synced", "put mine.a z"]);
  });

  it("reports an entry that is replaced during the pass before the end of the present entries", async () => {
    const bucket = await machines();
    // Exceeds the amount that the server sends before the reader takes a message.
    const ballast = "x".repeat(200_000);
    for (let at = 0; at < 40; at++) await bucket.create(`first.${at}`, { name: ballast });
    const before = await bucket.create("replaced", { name: "before" });
    const stop = new AbortController();
    const changes: string[] = [];
    for await (const change of bucket.watch({ signal: stop.signal })) {
      if (changes.length === 0) {
        await bucket.create("new", { name: "new" });
        await bucket.update("replaced", { name: "after" }, before);
      }
      changes.push(line(change));
      if (changes.includes("synced") && changes.includes("put replaced after")) break;
    }
    stop.abort();
    expect(changes.slice(40)).toEqual(["put new new", "put replaced after", "synced"]);
  });

  it("reports entries that expire", async () => {
    const bucket = await machines({ ttlMs: 1000 });
    const watched = collect(bucket);
    await bucket.create("a", { name: "short" });
    await until("it is gone", () => watched.changes.includes("delete a"));
    expect(await bucket.list()).toEqual([]);
    await bucket.create("a", { name: "again" });
    // A slow test may read the key only after it has expired again.
    await until("it is there again", () => watched.changes.includes("put a again"));
    await watched.stop();
  });

  it("leaves no consumer behind", async () => {
    const bucket = await machines();
    const manager = await jetstreamManager(connection);
    const watched = collect(bucket);
    await until("it has caught up", () => watched.changes.includes("synced"));
    await bucket.list();
    await watched.stop();
    await until("no consumer is left", async () => {
      const { state } = await manager.streams.info(`KV_${bucket.name}`);
      return state.consumer_count === 0;
    });
  });
});

describe("a server that dies and comes back", () => {
  it("does not make a watch miss or repeat a change", async () => {
    await using mine = await startTestNats();
    await using watcher = await connectTo(mine);
    await using writer = await connectTo(mine);
    const name = makeFreshName("machines");
    const codec = makeJsonCodec<Machine>();
    const read = await openBucket(watcher, { name, codec });
    const write = await openBucket(writer, { name, codec });
    const stay = await write.create("stay", { name: "1" });
    const go = await write.create("go", { name: "1" });
    const watched = collect(read);
    await until("it has caught up", () => watched.changes.includes("synced"));
    for (let round = 2; round <= 3; round += 1) {
      await mine.kill();
      await mine.start();
      if (round === 2) await until("it is deleted", () => write.delete("go", go).then(() => true));
      else await until("it is created", () => write.create("late", { name: "1" }));
    }
    await until(
      "both are reported",
      () => watched.changes.includes("delete go") && watched.changes.includes("put late 1"),
    );
    await watched.stop();
    expect(watched.changes.slice(2).sort()).toEqual(["delete go", "put late 1", "synced"].sort());
    expect(await read.get("stay")).toMatchObject({ revision: stay });
  });

  it("rejects with unavailable meanwhile", async () => {
    await using mine = await startTestNats();
    const client = await connectTo(mine);
    const bucket = await openBucket(client, { name: "b", codec: makeJsonCodec<Machine>(), timeoutMs: 200 });
    await mine.kill();
    await expect(bucket.get("a")).rejects.toMatchObject({ fault: { code: "unavailable", dependency: "nats" } });
    await expect(bucket.create("a", { name: "x" })).rejects.toMatchObject({ fault: { code: "unavailable" } });
    await expect(bucket.list()).rejects.toMatchObject({ fault: { code: "unavailable" } });
    await client.close();
  });
});
