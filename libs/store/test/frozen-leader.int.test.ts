import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { findFault } from "@muster/faults";
import { runWhileLeader } from "../src/index.ts";
import { connectTo, makeFreshName } from "./connected.ts";
import { openJournal } from "./journal.ts";

/** Longer than a pause of a busy machine. */
const TTL_MS = 5000;

let server: TestNats;
let connection: NatsConnection;
const children = new Set<ReturnType<typeof fork>>();

beforeAll(async () => {
  server = await startTestNats();
  connection = await connectTo(server);
});
afterEach(async () => {
  vi.useRealTimers();
  for (const child of children) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  children.clear();
});
afterAll(async () => {
  await connection.close();
  await server[Symbol.asyncDispose]();
});

type LeaderEvent = {
  readonly state?: string;
  readonly token?: number;
  readonly wrote?: string;
  readonly refused?: string;
  readonly code?: string;
  readonly sawLoss?: boolean;
};

function keeper(name: string, holder: string, mode: "watchful" | "blind") {
  const file = join(import.meta.dirname, "journal.process.ts");
  const child = fork(file, [server.url, server.token, holder, String(TTL_MS), name, mode]);
  children.add(child);
  const events: LeaderEvent[] = [];
  child.on("message", (message) => events.push(message as LeaderEvent));
  return {
    events,
    token: () => until(`${holder} leads`, () => events.find(({ token }) => token !== undefined)?.token),
    write: (text: string) => child.send(text),
    answer: (text: string) =>
      until(`${holder} answers ${text}`, () => events.find((one) => one.wrote === text || one.refused === text)),
    signal: (name: NodeJS.Signals) => child.kill(name),
  };
}

it.each(["watchful", "blind"] as const)(
  "a %s leader that is frozen past its time and resumes has every write refused, while the next one writes",
  async (mode) => {
    const name = makeFreshName(`frozen-${mode}`);
    const old = keeper(name, "old", mode);
    const oldToken = await old.token();
    old.write("before");
    expect(await old.answer("before")).toEqual({ wrote: "before" });
    const next = keeper(name, "next", "watchful");
    await until("the next one waits", () => next.events.some(({ state }) => state === "waiting"));

    old.signal("SIGSTOP");
    // The text stays in the pipe, and the process reads it first when it resumes.
    for (const text of ["frozen 1", "frozen 2"]) old.write(text);
    expect(await next.token()).toBeGreaterThan(oldToken);
    next.write("since");
    expect(await next.answer("since")).toEqual({ wrote: "since" });
    expect(old.events.some(({ state }) => state === "lost")).toBe(false);

    old.signal("SIGCONT");
    for (const text of ["frozen 1", "frozen 2"]) {
      const answer = await old.answer(text);
      expect(answer).toMatchObject({ refused: text, code: "unavailable" });
      if (mode === "watchful") expect(answer.sawLoss).toBe(true);
    }
    await until("it knows that it has lost", () => old.events.some(({ state }) => state === "lost"));
    old.write("later");
    expect(await old.answer("later")).toMatchObject({ refused: "later" });
    next.write("undisturbed");
    expect(await next.answer("undisturbed")).toEqual({ wrote: "undisturbed" });

    const stale = openJournal(connection, name, oldToken);
    expect(await stale.then(undefined, findFault)).toMatchObject({ code: "conflict", expectedRevision: oldToken });
    await using log = await openJournal(connection, name, (await next.token()) + 1);
    expect(log.state.texts).toEqual(["old before", "next since", "next undisturbed"]);
  },
);

it("reports the loss of the lead before the timer does", async () => {
  const lock = makeFreshName("asked");
  let nowMs = 0;
  const states: string[] = [];
  const stop = new AbortController();
  const held: boolean[] = [];
  const leading = runWhileLeader(
    connection,
    {
      lock,
      holder: "one",
      ttlMs: 60_000,
      signal: stop.signal,
      onChange: (state) => states.push(state),
      now: () => nowMs,
    },
    (leadership) => {
      if (held.length === 0) {
        held.push(leadership.isHeld());
        nowMs = 60_000;
        expect(leadership.signal.aborted).toBe(false);
        held.push(leadership.isHeld());
        expect(leadership.signal.aborted).toBe(true);
      }
      stop.abort();
      return Promise.resolve();
    },
  );
  await leading;
  expect(held).toEqual([true, false]);
  expect(states).toContain("lost");
});

it("is unaffected by jumps of the wall clock, in either direction", async () => {
  const lock = makeFreshName("jumping");
  const stop = new AbortController();
  const states: { one: string[]; two: string[] } = { one: [], two: [] };
  const stand = (holder: "one" | "two"): Promise<void> =>
    runWhileLeader(
      connection,
      { lock, holder, ttlMs: TTL_MS, signal: stop.signal, onChange: (state) => states[holder].push(state) },
      ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve());
        }),
    );
  const one = stand("one");
  await until("one leads", () => states.one.includes("leading"));
  const two = stand("two");
  await until("two waits", () => states.two.includes("waiting"));
  const renewals = async (): Promise<number> => {
    const info = await (await jetstreamManager(connection)).streams.info("KV_muster-locks");
    return info.state.last_seq;
  };
  for (const jumpMs of [24 * 3_600_000, -48 * 3_600_000]) {
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + jumpMs);
    const from = await renewals();
    await until("it has been renewed several times since", async () => (await renewals()) >= from + 5);
    vi.useRealTimers();
  }
  expect(states).toEqual({ one: ["waiting", "leading"], two: ["waiting"] });
  stop.abort();
  await Promise.all([one, two]);
});
