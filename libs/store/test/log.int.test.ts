import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { throwFault } from "@muster/faults";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openBucket } from "../src/index.ts";
import { connectTo, makeFreshName, makeJsonCodec } from "./connected.ts";
import { note, openJournal, type Journal, type Note } from "./journal.ts";
import { link } from "./link.ts";

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

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}`);
}

/** Reads the texts as a later reader of the log. */
async function recovered(nats: NatsConnection, name: string): Promise<readonly string[]> {
  await using log = await openJournal(nats, name, 1_000_000);
  return log.state.texts;
}

describe("deciding", () => {
  it("sees every earlier decision, also those not yet on disk, and is stored in that order", async () => {
    const name = makeFreshName("log");
    await using log = await openJournal(connection, name, 1);
    const answers = await Promise.all(numbered(500).map((text) => log.transact(note(text))));
    expect(answers).toEqual(numbered(500).map(Number));
    expect(log.state.texts).toEqual(numbered(500));
    expect(await recovered(connection, name)).toEqual(numbered(500));
  });

  it("writes waiting decisions into one entry", async () => {
    await using log = await openJournal(connection, makeFreshName("log"), 1);
    await Promise.all(numbered(1000).map((text) => log.transact(note(text))));
    expect(log.sequence).toBeLessThan(20);
  });

  it("encodes each decision once if entries can be joined from their parts, and reads them back", async () => {
    const name = makeFreshName("log");
    let encoded = 0;
    const lines = {
      encode: (notes: readonly Note[]) => {
        if (notes.length > 0) encoded += 1;
        return Buffer.from(notes.map(({ text }) => `${text}\n`).join(""));
      },
      decode: (bytes: Uint8Array) =>
        Buffer.from(bytes)
          .toString()
          .split("\n")
          .slice(0, -1)
          .map((text) => ({ text })),
      join: (parts: readonly Uint8Array[]) => Buffer.concat(parts),
    };
    {
      await using log = await openJournal(connection, name, 1, { events: lines });
      await Promise.all([...numbered(100).map((text) => log.transact(note(text))), log.transact(note())]);
      expect(log.sequence).toBeLessThan(20);
    }
    expect(encoded).toBe(100);
    await using again = await openJournal(connection, name, 2, { events: lines });
    expect(again.state.texts).toEqual(numbered(100));
  });

  it("shows the state on disk, not decisions in flight", async () => {
    await using log = await openJournal(connection, makeFreshName("log"), 1);
    const first = log.transact(note("a"));
    expect(log.state.texts).toEqual([]);
    await first;
    expect(log.state.texts).toEqual(["a"]);
  });

  it("rejects only the call whose decision throws", async () => {
    await using log = await openJournal(connection, makeFreshName("log"), 1);
    const refused = log.transact(() => throwFault({ code: "not_found", kind: "page", id: "7" }));
    const kept = log.transact(note("kept"));
    await expect(refused).rejects.toMatchObject({ fault: { code: "not_found" } });
    await kept;
    expect(log.state.texts).toEqual(["kept"]);
  });

  it("answers a decision without events only once the state that it read is on disk", async () => {
    await using log = await openJournal(connection, makeFreshName("log"), 1);
    const before = log.sequence;
    expect(await log.transact(note())).toBe(0);
    expect(log.sequence).toBe(before);
    const order: string[] = [];
    const written = log.transact(note("a")).then(() => order.push("written"));
    const asked = log.transact(note()).then((seen) => order.push(`saw ${seen}`));
    await Promise.all([written, asked]);
    expect(order).toEqual(["written", "saw 1"]);
    expect(log.sequence).toBe(before + 1);
  });

  it("rejects a decision that a read state forbids only once that state is on disk", async () => {
    await using log = await openJournal(connection, makeFreshName("log"), 1);
    const refuseWhatIsThere = ({ texts }: Journal) =>
      texts.includes("a") ? throwFault({ code: "already_exists", kind: "note", id: "a" }) : note("never")({ texts });
    const order: string[] = [];
    const written = log.transact(note("a")).then(() => order.push("written"));
    const refused = log.transact(refuseWhatIsThere).catch((error: unknown) => {
      order.push("refused");
      throw error;
    });
    await Promise.all([written, expect(refused).rejects.toMatchObject({ fault: { code: "already_exists" } })]);
    expect(order).toEqual(["written", "refused"]);
  });

  it("refuses nothing because of a state that never reaches the disk", async () => {
    await using wire = await link(server);
    await using far = await connectTo(wire.server);
    const name = makeFreshName("log");
    await using older = await openJournal(far, name, 1);
    wire.cut();
    const results = Promise.allSettled([
      older.transact(note("a")),
      older.transact(({ texts }) => throwFault({ code: "not_found", kind: "note", id: `${texts.length}` })),
    ]);
    await using newer = await openJournal(connection, name, 2);
    await newer.transact(note("newer"));
    wire.mend();
    for (const result of await results) expect(result).toMatchObject({ reason: { fault: { code: "unavailable" } } });
  });

  it("calls listeners with the written events, in order, before it answers", async () => {
    await using log = await openJournal(connection, makeFreshName("log"), 1);
    const seen: string[] = [];
    log.onCommit((events, state) => {
      seen.push(...events.map(({ text }) => text));
      expect(state.texts).toEqual(seen);
    });
    await Promise.all(
      numbered(100).map(async (text) => {
        await log.transact(note(text));
        expect(seen).toContain(text);
      }),
    );
    expect(seen).toEqual(numbered(100));
  });

  it("refuses waiting decisions beyond the limit, by name and number", async () => {
    const name = makeFreshName("log");
    await using log = await openJournal(connection, name, 1, { maxWaiting: 10 });
    const results = await Promise.allSettled(numbered(12).map((text) => log.transact(note(text))));
    expect(results.map(({ status }) => status)).toEqual([
      ...Array<string>(10).fill("fulfilled"),
      "rejected",
      "rejected",
    ]);
    expect(results[11]).toMatchObject({
      reason: { fault: { code: "limit_exceeded", what: `decisions waiting for log ${name}`, limit: 10 } },
    });
    await log.transact(note("later"));
  });

  it("never splits a decision over entries, and keeps entries within the limit", async () => {
    const name = makeFreshName("log");
    await using log = await openJournal(connection, name, 1, { maxEntryBytes: 1000 });
    const text = "x".repeat(100);
    await Promise.all(
      numbered(50).map((n) => log.transact(note(`${n}-1-${text}`, `${n}-2-${text}`, `${n}-3-${text}`))),
    );
    const manager = await jetstreamManager(connection);
    for (let seq = 2; seq <= log.sequence; seq += 1) {
      const entry = await manager.streams.getMessage(name, { seq });
      expect(entry?.data.length).toBeLessThanOrEqual(1000);
      expect((entry?.json<unknown[]>().length ?? 1) % 3).toBe(0);
    }
    expect(log.state.texts).toHaveLength(150);
  });

  it("refuses only the decision that is larger than an entry", async () => {
    const name = makeFreshName("log");
    await using log = await openJournal(connection, name, 1, { maxEntryBytes: 1000 });
    const large = log.transact(note("x".repeat(2000)));
    const small = log.transact(note("small"));
    await expect(large).rejects.toMatchObject({
      fault: { code: "limit_exceeded", what: `decision of 2013 bytes for log ${name}`, limit: 1000 },
    });
    await small;
    expect(log.state.texts).toEqual(["small"]);
  });

  it("writes waiting decisions before it closes, and nothing after", async () => {
    const name = makeFreshName("log");
    const log = await openJournal(connection, name, 1);
    const decided = Promise.all(numbered(100).map((text) => log.transact(note(text))));
    await log[Symbol.asyncDispose]();
    await decided;
    expect(log.deposed.aborted).toBe(true);
    await expect(log.transact(note("late"))).rejects.toMatchObject({ fault: { code: "unavailable" } });
    expect(await recovered(connection, name)).toEqual(numbered(100));
  });
});

describe("two writers", () => {
  it("leave the log to the later one; the other is refused and stores nothing", async () => {
    const name = makeFreshName("log");
    await using older = await openJournal(connection, name, 1);
    await older.transact(note("before"));
    await using newer = await openJournal(connection, name, 2);
    expect(newer.state.texts).toEqual(["before"]);
    const refused = await Promise.allSettled([older.transact(note("x")), older.transact(note("y"))]);
    for (const result of refused)
      expect(result).toMatchObject({ reason: { fault: { code: "unavailable", dependency: `log ${name}` } } });
    expect(older.deposed.aborted).toBe(true);
    expect(older.state.texts).toEqual(["before"]);
    await newer.transact(note("after"));
    expect(newer.state.texts).toEqual(["before", "after"]);
    await expect(older.transact(note("z"))).rejects.toMatchObject({ fault: { code: "unavailable" } });
  });

  it("do not admit one with an older token, and it disturbs nothing", async () => {
    const name = makeFreshName("log");
    await using current = await openJournal(connection, name, 7);
    await expect(openJournal(connection, name, 6)).rejects.toMatchObject({
      fault: { code: "conflict", id: name, expectedRevision: 6, actualRevision: 7 },
    });
    await current.transact(note("undisturbed"));
    await using again = await openJournal(connection, name, 7);
    expect(again.state.texts).toEqual(["undisturbed"]);
  });

  it("end with their lead", async () => {
    const name = makeFreshName("log");
    const lead = new AbortController();
    await using log = await openJournal(connection, name, 1, { signal: lead.signal });
    const decided = log.transact(note("a"));
    lead.abort();
    await expect(decided).rejects.toMatchObject({ fault: { code: "unavailable" } });
    expect(log.deposed.aborted).toBe(true);
  });
});

describe("a server that dies with entries in flight", () => {
  it("loses no answered entry, and writes none twice", async () => {
    await using mine = await startTestNats();
    await using nats = await connectTo(mine);
    const name = "restarts";
    const log = await openJournal(nats, name, 1);
    const answered: string[] = [];
    const decide = async (round: number): Promise<void> => {
      await Promise.all(
        numbered(50).map(async (n) => {
          const text = `${round}-${n}`;
          await log.transact(note(text));
          answered.push(text);
        }),
      );
    };
    for (let round = 0; round < 4; round += 1) {
      const deciding = decide(round);
      const more = decide(round + 100);
      await mine.kill();
      await mine.start();
      await Promise.all([deciding, more]);
    }
    expect(log.deposed.aborted).toBe(false);
    expect(new Set(log.state.texts).size).toBe(log.state.texts.length);
    expect(log.state.texts).toEqual(answered);
    await log[Symbol.asyncDispose]();
    expect(await recovered(nats, name)).toEqual(answered);
  });

  it("answers correctly when the entry was written but the answer was lost", async () => {
    await using wire = await link(server);
    await using far = await connectTo(wire.server);
    const name = makeFreshName("log");
    const manager = await jetstreamManager(connection);
    await using log = await openJournal(far, name, 1);
    wire.freeze("answers");
    const decided = log.transact(note("once"));
    await until("it is on disk", async () => (await manager.streams.info(name)).state.last_seq === 2);
    wire.cut();
    wire.mend();
    expect(await decided).toBe(0);
    expect(log.sequence).toBe(2);
    expect(await log.transact(note("next"))).toBe(1);
    expect(await recovered(connection, name)).toEqual(["once", "next"]);
  });

  it("refuses everything behind an entry whose sequence was taken during a disconnection", async () => {
    await using wire = await link(server);
    await using far = await connectTo(wire.server);
    const name = makeFreshName("log");
    await using older = await openJournal(far, name, 1);
    wire.cut();
    const results = Promise.allSettled(numbered(5).map((text) => older.transact(note(text))));
    await using newer = await openJournal(connection, name, 2);
    await newer.transact(note("newer"));
    wire.mend();
    for (const result of await results) expect(result).toMatchObject({ reason: { fault: { code: "unavailable" } } });
    expect(await recovered(connection, name)).toEqual(["newer"]);
  });
});

describe("a damaged log", () => {
  it("does not open when an entry does not decode, and names the entry", async () => {
    const name = makeFreshName("log");
    const log = await openJournal(connection, name, 1);
    await log.transact(note("a"));
    await connection.request(`log.${name}`, "{");
    await expect(log.transact(note("b"))).rejects.toMatchObject({ fault: { code: "unavailable" } });
    await expect(openJournal(connection, name, 2)).rejects.toThrow(`decoding entry 3 of log ${name}`);
  });

  it("does not open when an entry is missing, and names the entry", async () => {
    const name = makeFreshName("log");
    await using log = await openJournal(connection, name, 1);
    for (const text of numbered(3)) await log.transact(note(text));
    const manager = await jetstreamManager(connection);
    await manager.streams.deleteMessage(name, 3);
    await expect(openJournal(connection, name, 2)).rejects.toThrow(`log ${name} lacks entry 3: the next one is 4`);
  });

  it("does not open on a stream that drops entries automatically", async () => {
    const name = makeFreshName("log");
    const manager = await jetstreamManager(connection);
    await manager.streams.add({ name, subjects: [`log.${name}`], max_age: 1e9 * 60 });
    await expect(openJournal(connection, name, 1)).rejects.toThrow("its messages vanish with time");
  });

  it("does not open when it has fewer entries than its snapshot", async () => {
    const name = makeFreshName("log");
    {
      await using log = await openJournal(connection, name, 1, { snapshot: { everyEntries: 2 } });
      for (const text of numbered(9)) await log.transact(note(text));
    }
    const manager = await jetstreamManager(connection);
    await manager.streams.delete(name);
    await expect(openJournal(connection, name, 2)).rejects.toThrow(/entries were lost/);
  });
});

describe("snapshots", () => {
  it("replace old entries, and keep the configured number of them", async () => {
    const name = makeFreshName("log");
    {
      await using log = await openJournal(connection, name, 1, { snapshot: { everyEntries: 5, keepEntries: 3 } });
      for (const text of numbered(40)) await log.transact(note(text));
    }
    const manager = await jetstreamManager(connection);
    const { state } = await manager.streams.info(name);
    expect(state.first_seq).toBeGreaterThan(20);
    expect(state.messages).toBeGreaterThanOrEqual(3);
    expect(await recovered(connection, name)).toEqual(numbered(40));
  });

  it("may be larger than a message", async () => {
    const name = makeFreshName("log");
    const text = "x".repeat(100_000);
    {
      await using log = await openJournal(connection, name, 1, { snapshot: { everyEntries: 10, keepEntries: 0 } });
      for (const n of numbered(25)) await log.transact(note(`${n}${text}`));
    }
    const texts = await recovered(connection, name);
    expect(texts).toEqual(numbered(25).map((n) => `${n}${text}`));
  });

  it("that are damaged are not opened", async () => {
    const name = makeFreshName("log");
    {
      await using log = await openJournal(connection, name, 1, { snapshot: { everyEntries: 2 } });
      for (const text of numbered(5)) await log.transact(note(text));
    }
    const manager = await jetstreamManager(connection);
    await manager.streams.purge("KV_snapshots", { filter: `$KV.snapshots.${name}.>` });
    await expect(openJournal(connection, name, 2)).rejects.toThrow(/snapshot snapshots\/log-\d+ at \d+ is damaged/);
  });

  it("that cannot be written are reported and stop nothing", async () => {
    const name = makeFreshName("log");
    const problems: Error[] = [];
    await using log = await openJournal(connection, name, 1, {
      snapshots: {
        bucket: "snapshots",
        key: name,
        everyEntries: 2,
        codec: {
          encode: () => {
            throw new Error("no room");
          },
          decode: () => ({ texts: [] }),
        },
      },
      onProblem: (problem) => problems.push(problem),
    });
    for (const text of numbered(10)) await log.transact(note(text));
    await until("it is reported", () => problems.length > 0);
    expect(problems[0]?.message).toBe(`writing the snapshot of log ${name}`);
    expect(await recovered(connection, name)).toEqual(numbered(10));
  });

  it("of a later writer are kept by an older one that was frozen while it replaced its own", async () => {
    const name = makeFreshName("log");
    await using wire = await link(server);
    const through = await connectTo(wire.server);
    const problems: Error[] = [];
    const old = await openJournal(through, name, 1, {
      snapshot: { everyEntries: 3, keepEntries: 0 },
      onProblem: (problem) => problems.push(problem),
    });
    await old.transact(note("a"));
    const headIsSent = wire.freezeAfter(` $KV.snapshots.${name} `);
    await old.transact(note("b"));
    await headIsSent;
    {
      await using later = await openJournal(connection, name, 2, { snapshot: { everyEntries: 2, keepEntries: 0 } });
      for (const text of numbered(4)) await later.transact(note(text));
    }
    wire.mend();
    await old[Symbol.asyncDispose]();
    await through.close();
    expect(problems).toEqual([]);
    expect(await recovered(connection, name)).toEqual(["a", "b", ...numbered(4)]);
  });

  it("are abandoned by a writer that loses its lead meanwhile", async () => {
    const name = makeFreshName("log");
    await using wire = await link(server);
    const through = await connectTo(wire.server);
    const lead = new AbortController();
    const log = await openJournal(through, name, 1, { snapshot: { everyEntries: 2 }, signal: lead.signal });
    const partIsSent = wire.freezeAfter(` $KV.snapshots.${name}.`);
    await log.transact(note("a"));
    await partIsSent;
    lead.abort(new Error("another process leads"));
    wire.mend();
    await log[Symbol.asyncDispose]();
    await through.close();
    const bucket = await openBucket(connection, { name: "snapshots", codec: makeJsonCodec<unknown>() });
    expect(await bucket.get(name)).toBeUndefined();
    expect(await recovered(connection, name)).toEqual(["a"]);
  });
});
