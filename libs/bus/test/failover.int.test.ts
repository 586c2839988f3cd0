import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { ReservationService, subjects } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { makeClient, connectNats, serveMethods, type NatsBus } from "../src/index.ts";
import { answered } from "./answered.ts";
import { catchFault } from "./call-suite.ts";

let server: TestNats;
let caller: NatsBus;
const replicas = new Set<ChildProcess>();

beforeAll(async () => {
  server = await startTestNats();
  caller = await connectNats({ url: server.url, token: server.token, name: "caller" });
});
afterEach(async () => {
  for (const replica of [...replicas]) await kill(replica);
});
afterAll(async () => {
  await caller[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

async function start(name: string): Promise<ChildProcess> {
  const child = fork(join(import.meta.dirname, "replica.process.ts"), [server.url, server.token, name]);
  replicas.add(child);
  await once(child, "message");
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  replicas.delete(child);
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

it("hides the death of replicas with calls in flight from callers", async () => {
  let [one, two] = [await start("one"), await start("two")];
  const { listPools } = makeClient(caller, ReservationService);
  const answers = new Map<string, number>();
  let stopped = false;
  const call = async (): Promise<void> => {
    while (!stopped) {
      const [pool] = (await listPools({}, { timeoutMs: 30_000 })).pools;
      const name = pool?.name ?? "";
      answers.set(name, (answers.get(name) ?? 0) + 1);
    }
  };
  const calling = Promise.all(Array.from({ length: 20 }, call));
  for (let round = 0; round < 2; round += 1) {
    answers.clear();
    await until("both answer", () => answers.size === 2);
    await kill(one);
    answers.clear();
    await until("the other answers all", () => (answers.get("two") ?? 0) > 20);
    one = await start("one");
    answers.clear();
    await until("both answer again", () => answers.size === 2);
    await kill(two);
    answers.clear();
    await until("the other answers all", () => (answers.get("one") ?? 0) > 20);
    two = await start("two");
  }
  // No replica runs for a moment, as during a restart.
  await kill(one);
  await kill(two);
  one = await start("one");
  answers.clear();
  await until("it answers", () => (answers.get("one") ?? 0) > 20);
  stopped = true;
  await calling;
  await kill(one);
});

it("sends the request to another replica if one does not answer, with the remaining time, and takes the first answer", async () => {
  const asked: { name: string; leftMs: number }[] = [];
  /** Number of requests that the replica never answers. */
  let ignored = 1;
  const handlersOf = (name: string) =>
    answered({
      listPools: (_request, { deadlineMs }) => {
        asked.push({ name, leftMs: deadlineMs - Date.now() });
        ignored -= 1;
        return ignored < 0 ? Promise.resolve({ pools: [{ name }] }) : new Promise(() => undefined);
      },
    });
  await using stack = new AsyncDisposableStack();
  for (const name of ["one", "two"]) {
    const bus = stack.use(await connectNats({ url: server.url, token: server.token, name, drainMs: 100 }));
    await serveMethods(bus, ReservationService, handlersOf(name), { version: "1.0.0", description: "", graceMs: 0 });
  }
  const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 60_000 });
  const { pools } = await call;
  const [first, second] = asked;
  expect(pools).toMatchObject([{ name: second?.name }]);
  expect(second?.name).not.toBe(first?.name);
  expect(second?.leftMs).toBeLessThan(first?.leftMs ?? 0);
  ignored = Infinity;
  asked.length = 0;
  const once = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 5000, repeat: "never" });
  expect(await catchFault(once)).toMatchObject({ code: "deadline_exceeded", timeoutMs: 5000 });
  expect(asked).toHaveLength(1);
});

it("delivers a repeated request to a slow replica once, and takes its answer", async () => {
  await using slow = await connectNats({ url: server.url, token: server.token, name: "slow" });
  const held = Promise.withResolvers<{ pools: { name: string }[] }>();
  let calls = 0;
  const handlers = answered({
    listPools: () => {
      calls += 1;
      return held.promise;
    },
  });
  await serveMethods(slow, ReservationService, handlers, { version: "1.0.0", description: "" });
  const repeated: string[] = [];
  const request = subjects.request("reservation", "list-pools");
  for (const subject of [request, subjects.requestOfAnyReplica(request)])
    await caller.listen(subject, (message) => repeated.push(message.subject));
  const call = makeClient(caller, ReservationService).listPools({}, { timeoutMs: 60_000 });
  await until("it is repeated, to the replica alone and to any", () => repeated.length >= 3);
  held.resolve({ pools: [{ name: "slow" }] });
  expect((await call).pools).toMatchObject([{ name: "slow" }]);
  expect(calls).toBe(1);
});
