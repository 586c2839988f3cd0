import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { ReservationService } from "@muster/proto";
import { natsServer, until, type TestNats } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { client, connectNats, serve, type NatsBus } from "../src/index.ts";
import { answered } from "./answered.ts";
import { faultFrom } from "./call-suite.ts";

let server: TestNats;
let caller: NatsBus;
const replicas = new Set<ChildProcess>();

beforeAll(async () => {
  server = await natsServer();
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

it("hides from callers that replicas are killed with their calls in hand", async () => {
  let [one, two] = [await start("one"), await start("two")];
  const { listPools } = client(caller, ReservationService);
  const answers = new Map<string, number>();
  let stopped = false;
  const call = async (): Promise<void> => {
    while (!stopped) {
      const [pool] = (await listPools({}, { timeoutMs: 10_000 })).pools;
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
  // Nobody at all for a moment, as in a restart.
  await kill(one);
  await kill(two);
  one = await start("one");
  answers.clear();
  await until("it answers", () => (answers.get("one") ?? 0) > 20);
  stopped = true;
  await calling;
  await kill(one);
});

it("asks another replica beside one that does not answer, with the time that is left, and takes the first answer", async () => {
  await using silent = await connectNats({ url: server.url, token: server.token, name: "silent", drainMs: 100 });
  const leftMs: number[] = [];
  let answer = false;
  const handlers = answered({
    listPools: (_request, { deadlineMs }) => {
      leftMs.push(deadlineMs - Date.now());
      return answer ? Promise.resolve({ pools: [{ name: "second" }] }) : new Promise(() => undefined);
    },
  });
  await serve(silent, ReservationService, handlers, { version: "1.0.0", description: "", graceMs: 0 });
  const call = client(caller, ReservationService).listPools({}, { timeoutMs: 9000 });
  await until("one has it", () => leftMs.length === 1);
  answer = true;
  expect((await call).pools).toMatchObject([{ name: "second" }]);
  expect((leftMs[0] ?? 0) - (leftMs[1] ?? 0)).toBeGreaterThan(2000);
  answer = false;
  leftMs.length = 0;
  const once = client(caller, ReservationService).listPools({}, { timeoutMs: 1800, repeat: "never" });
  expect(await faultFrom(once)).toMatchObject({ code: "deadline_exceeded", timeoutMs: 1800 });
  expect(leftMs).toHaveLength(1);
});
