import fc from "fast-check";
import type { NatsConnection } from "@nats-io/nats-core";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Log } from "../src/index.ts";
import { connectTo, makeFreshName } from "./connected.ts";
import { note, openJournal, type Journal, type Note } from "./journal.ts";

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

/** An event of a log. A crash is a writer that vanishes with decisions in flight. */
type Step =
  | { readonly kind: "decide"; readonly sizes: readonly number[] }
  | { readonly kind: "crash"; readonly sizes: readonly number[] }
  | { readonly kind: "close" }
  | { readonly kind: "take-over"; readonly sizes: readonly number[] };

const sizes = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 12 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("decide" as const), sizes }) },
  fc.record({ kind: fc.constant("crash" as const), sizes }),
  fc.record({ kind: fc.constant("close" as const) }),
  fc.record({ kind: fc.constant("take-over" as const), sizes }),
);

class Run {
  readonly name = makeFreshName("log");
  token = 0;
  decided = 0;
  /** Texts of each decision that was answered. */
  readonly answered: string[][] = [];
  readonly #limits: { readonly maxEntryBytes: number; readonly everyEntries: number };

  constructor(limits: { readonly maxEntryBytes: number; readonly everyEntries: number }) {
    this.#limits = limits;
  }

  open(): Promise<Log<Journal, Note>> {
    this.token += 1;
    const { maxEntryBytes, everyEntries } = this.#limits;
    return openJournal(connection, this.name, this.token, { maxEntryBytes, snapshot: { everyEntries } });
  }

  /** Starts concurrent decisions with these numbers of notes; resolves when all are answered or refused. */
  async decide(log: Log<Journal, Note>, sizesOfDecisions: readonly number[]): Promise<number> {
    const answers = sizesOfDecisions.map(async (size) => {
      this.decided += 1;
      const texts = Array.from({ length: size }, (_, index) => `${this.decided}.${index}`);
      await log.transact(note(...texts));
      this.answered.push(texts);
    });
    const results = await Promise.allSettled(answers);
    return results.filter(({ status }) => status === "fulfilled").length;
  }
}

it("opens with all answered decisions in order after any faults; decisions of a crashed writer may follow, undivided", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 8 }),
      fc.record({ maxEntryBytes: fc.integer({ min: 80, max: 400 }), everyEntries: fc.integer({ min: 1, max: 6 }) }),
      async (steps, limits) => {
        const run = new Run(limits);
        let log = await run.open();
        const abandoned: Promise<number>[] = [];
        for (const one of steps) {
          switch (one.kind) {
            case "decide":
              expect(await run.decide(log, one.sizes)).toBe(one.sizes.length);
              break;
            case "crash":
              abandoned.push(run.decide(log, one.sizes));
              log = await run.open();
              break;
            case "close":
              await log[Symbol.asyncDispose]();
              log = await run.open();
              break;
            case "take-over": {
              const older = log;
              log = await run.open();
              const lasting = one.sizes.filter((size) => size > 0);
              expect(await run.decide(older, lasting)).toBe(0);
              expect(older.deposed.aborted).toBe(lasting.length > 0);
              await older[Symbol.asyncDispose]();
            }
          }
          await Promise.all(abandoned);
          const answered = run.answered.flat();
          expect(new Set(log.state.texts).size).toBe(log.state.texts.length);
          // No answered note is lost or reordered.
          const kept = new Set(answered);
          expect(log.state.texts.filter((text) => kept.has(text))).toEqual(answered);
        }
        await log[Symbol.asyncDispose]();
        const again = await run.open();
        expect(again.state).toEqual(log.state);
        expect(wholeDecisions(again.state.texts)).toBe(true);
        await again[Symbol.asyncDispose]();
      },
    ),
    { numRuns: 40 },
  );
});

it("gives two concurrent writers one order, in which no answered decision is missing", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.boolean(), sizes), { minLength: 1, maxLength: 8 }), async (turns) => {
      const run = new Run({ maxEntryBytes: 200, everyEntries: 3 });
      let first = await run.open();
      let second: Log<Journal, Note> | undefined;
      const deciding: Promise<number>[] = [];
      for (const [reopenFirst, decisions] of turns) {
        deciding.push(run.decide(first, decisions));
        // Opens the log while the other one writes.
        const opened = await run.open();
        deciding.push(run.decide(opened, decisions));
        if (reopenFirst) first = opened;
        else second = opened;
      }
      await Promise.all(deciding);
      const last = await run.open();
      const { texts } = last.state;
      expect(new Set(texts).size).toBe(texts.length);
      expect(wholeDecisions(texts)).toBe(true);
      for (const decision of run.answered) if (decision[0] !== undefined) expect(texts).toContain(decision[0]);
      for (const log of [first, second])
        if (log !== undefined) expect(texts.slice(0, log.state.texts.length)).toEqual(log.state.texts);
      for (const log of [first, second, last]) await log?.[Symbol.asyncDispose]();
    }),
    { numRuns: 25 },
  );
});

/** Whether the notes of each decision are adjacent and in order. */
function wholeDecisions(texts: readonly string[]): boolean {
  return texts.every((text, index) => {
    const [decision = "", part = ""] = text.split(".");
    return part === "0" || texts[index - 1] === `${decision}.${Number(part) - 1}`;
  });
}
