import { once } from "node:events";
import { connect } from "node:net";
import { jetstreamManager } from "@nats-io/jetstream";
import { buckets, ReservationService, subjects } from "@muster/proto";
import type { NatsUserName } from "@muster/nats-server";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { makeClient, connectNats, serveMethods, type NatsBus } from "../src/index.ts";
import { answered } from "./answered.ts";
import { catchFault } from "./call-suite.ts";

const nothing = new Uint8Array();
const LIST_POOLS = subjects.request("reservation", "list-pools");
const STREAM = `KV_${buckets.snapshots}`;

const stack = new AsyncDisposableStack();
let server: TestNats;
let cli: NatsBus;
let jobs: NatsBus;
let manager: NatsBus;
let calls = 0;

beforeAll(async () => {
  server = stack.use(await startTestNats({ users: true }));
  cli = await connectAs("cli");
  jobs = await connectAs("job-controller");
  manager = await connectAs("reservation-manager");
  const streams = (await jetstreamManager(manager.connection, { checkAPI: false })).streams;
  await streams.add({ name: STREAM, subjects: [`$KV.${buckets.snapshots}.>`] });
});
afterAll(() => stack.disposeAsync());

beforeEach(async () => {
  calls = 0;
  const handlers = answered({
    listPools: () => {
      calls += 1;
      return Promise.resolve({});
    },
  });
  const service = await serveMethods(manager, ReservationService, handlers, {
    version: "1.0.0",
    description: "under test",
  });
  return () => service[Symbol.asyncDispose]();
});

/** Connects with the rights that an installation grants the user. */
async function connectAs(user: NatsUserName): Promise<NatsBus> {
  const access = { url: server.url, nkey: { seed: server.seedOf(user) }, inboxPrefix: subjects.inbox(user) };
  return stack.use(await connectNats({ ...access, name: user, requestRate: { perSecond: 0.001, burst: 3 } }));
}

const ask = (bus: NatsBus) => makeClient(bus, ReservationService).listPools({}, { timeoutMs: 30_000 });

it("identifies each user of NATS by the inbox that the server allows", async () => {
  for (let n = 0; n < 3; n += 1) await ask(cli);
  expect(await catchFault(ask(cli))).toMatchObject({ what: "requests a second of cli to reservation" });
  await ask(jobs);
  expect(calls).toBe(4);
});

it("charges a request to the user whose inbox it names, and sends the caller no answer", async () => {
  const heard: string[] = [];
  cli.connection.subscribe(`${subjects.inbox("cli")}.>`, {
    callback: (_error, { subject }) => void heard.push(subject),
  });
  await cli.connection.flush();
  const before = await ownedMessages();
  for (let n = 0; n < 3; n += 1)
    cli.connection.publish(LIST_POOLS, nothing, { reply: `${subjects.inbox("job-controller")}.guessed.${n}` });
  await until("all have been answered", () => calls === 3);
  expect(await catchFault(ask(jobs))).toMatchObject({ what: "requests a second of job-controller to reservation" });
  await ask(cli);
  expect(heard).toHaveLength(1);
  expect(await ownedMessages()).toBe(before);
});

it.each([
  { to: "a bucket of the service", reply: `$KV.${buckets.snapshots}.reservation` },
  { to: "the log of the service", reply: "muster.log.reservation" },
  { to: "what empties its bucket", reply: `$JS.API.STREAM.PURGE.${STREAM}` },
])("neither answers nor executes a request with the reply subject $to", async ({ reply }) => {
  manager.connection.publish(`$KV.${buckets.snapshots}.reservation`, "kept");
  await manager.connection.flush();
  const before = await ownedMessages();
  for (const asked of [LIST_POOLS, "$SRV.PING", "$SRV.INFO.reservation", "$SRV.STATS"])
    cli.connection.publish(asked, nothing, { reply });
  cli.connection.publish(LIST_POOLS, nothing, { reply: `${subjects.inbox("cli")}.last.1` });
  await until("what came after it has been answered", () => calls > 0);
  await manager.connection.flush();
  expect({ calls, kept: await ownedMessages() }).toEqual({ calls: 1, kept: before });
});

it("refuses a message above the server's limit, because the server would close the connection", async () => {
  const large = makeClient(cli, ReservationService).reserve({ requestId: "x".repeat(1_100_000) });
  expect(await catchFault(large)).toMatchObject({ code: "limit_exceeded", limit: 1_048_576, retryAfterMs: 0 });
  await ask(cli);

  await using open = await startTestNats();
  const socket = connect(Number(new URL(open.url).port), "127.0.0.1").setEncoding("utf8");
  let said = "";
  socket.on("data", (text: string) => (said += text));
  socket.write(`CONNECT ${JSON.stringify({ auth_token: open.token, verbose: false })}\r\nPUB a 1048577\r\n`);
  await once(socket, "close");
  expect(said).toContain("-ERR 'Maximum Payload Violation'");
});

/** Messages of the bucket that only the service may write. */
async function ownedMessages(): Promise<number> {
  const { streams } = await jetstreamManager(manager.connection, { checkAPI: false });
  return (await streams.info(STREAM)).state.messages;
}
