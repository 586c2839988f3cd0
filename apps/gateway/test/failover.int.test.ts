import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "@muster/testkit";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startGatewayProcess, type GatewayProcess } from "./gateway-process.ts";
import { openStream, startGatewayWorld, type GatewayWorld, type Streamed } from "./gateway-world.ts";

let world: GatewayWorld;
let sessions: Map<string, number>;
let first: GatewayProcess;
let second: GatewayProcess;
let token: string;
let variables: Record<string, string>;

beforeAll(async () => {
  world = await startGatewayWorld({
    listSessions: () => ({ sessions: [...sessions].map(([name, revision]) => ({ name, revision })) }),
  });
  const keys = join(world.directory, "session-keys");
  await writeFile(keys, "k".repeat(40), { mode: 0o600 });
  const tokenFile = join(world.directory, "token");
  variables = {
    GATEWAY_TOKEN_FILE: tokenFile,
    GATEWAY_SESSION_KEY_FILE: keys,
    GATEWAY_WATCH_POLL_MS: "20",
  };
  [first, second] = await Promise.all([
    startGatewayProcess(world.nats, variables),
    startGatewayProcess(world.nats, variables),
  ]);
  token = (await readFile(tokenFile, "utf8")).trim();
  sessions = new Map([["a", 1]]);
});

afterAll(async () => {
  await Promise.all([first[Symbol.asyncDispose](), second[Symbol.asyncDispose]()]);
  await world[Symbol.asyncDispose]();
});

const shown = (stream: Streamed): string[] =>
  stream.events().map(({ event, data }) => {
    const { name, revision } = data as { name?: string; revision?: number };
    return name === undefined ? event : `${event} ${name}@${revision}`;
  });

it("continues a watch and a session on another gateway after its own is killed", async () => {
  const signedIn = await request(`${first.url}/auth/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  await signedIn.body.dump();
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0] ?? "";
  await using before = await openStream(`${first.url}/v1/sessions?watch=true`, { cookie });
  await until("the list arrives", () => shown(before).includes("synced"));
  const lastEventId = before.events().findLast(({ id }) => id !== undefined)?.id ?? "";

  await first.kill();
  await until("the connection is broken", () => before.over() !== undefined);
  sessions.set("a", 2).set("b", 1);
  await using after = await openStream(`${second.url}/v1/sessions?watch=true`, {
    cookie,
    "last-event-id": lastEventId,
  });
  await until("the list arrives", () => shown(after).includes("synced"));
  expect(shown(after)).toEqual(["reset", "added a@2", "added b@1", "synced"]);
  sessions.delete("a");
  await until("the change arrives", () => shown(after).includes("deleted a@2"));
  expect(after.over()).toBeUndefined();
});

it("answers running requests when it is stopped, refuses new ones, and does not wait for watches", async () => {
  const held = Promise.withResolvers<object>();
  world.answers["cancelSession"] = () => held.promise;
  const stopped = await startGatewayProcess(world.nats, variables);
  const authorization = `Bearer ${token}`;
  const cancel = request(`${stopped.url}/v1/sessions/a/cancel`, { method: "POST", headers: { authorization } });
  await until("the service has the request", () => world.received.some(({ method }) => method === "cancelSession"));
  await using watch = await openStream(`${stopped.url}/v1/sessions?watch=true`, { authorization });
  const end = stopped[Symbol.asyncDispose]();

  const refused = await until("a new request is refused", async () => {
    const answer = await request(`${stopped.url}/v1/sessions`, { headers: { authorization } });
    const text = await answer.body.text();
    return answer.statusCode === 503 && { headers: answer.headers, problem: JSON.parse(text) as object };
  });
  expect(refused.problem).toMatchObject({ code: "UNAVAILABLE", retryAfterMs: 1000 });
  expect(refused.headers).toMatchObject({ "retry-after": "1", connection: "close" });
  expect((await request(`${stopped.url}/readyz`)).statusCode).toBe(503);
  expect((await request(`${stopped.url}/healthz`)).statusCode).toBe(200);

  held.resolve({ session: { name: "a" } });
  const answer = await cancel;
  expect([answer.statusCode, await answer.body.json()]).toMatchObject([200, { session: { name: "a" } }]);
  await end;
  await until("the watch is over", () => watch.over() !== undefined);
});
