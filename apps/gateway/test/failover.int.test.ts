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

beforeAll(async () => {
  world = await startGatewayWorld({
    listSessions: () => ({ sessions: [...sessions].map(([name, revision]) => ({ name, revision })) }),
  });
  const keys = join(world.directory, "session-keys");
  await writeFile(keys, "k".repeat(40), { mode: 0o600 });
  const variables = {
    GATEWAY_TOKEN_FILE: join(world.directory, "token"),
    GATEWAY_SESSION_KEY_FILE: keys,
    GATEWAY_WATCH_POLL_MS: "20",
  };
  [first, second] = await Promise.all([
    startGatewayProcess(world.nats, variables),
    startGatewayProcess(world.nats, variables),
  ]);
  token = (await readFile(variables.GATEWAY_TOKEN_FILE, "utf8")).trim();
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

it("continues a watch and a session on another gateway when its own is killed", async () => {
  const signedIn = await request(`${first.url}/auth/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  await signedIn.body.dump();
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0] ?? "";
  await using before = await openStream(`${first.url}/v1/sessions?watch=true`, { cookie });
  await until("the list is there", () => shown(before).includes("synced"));
  const lastEventId = before.events().findLast(({ id }) => id !== undefined)?.id ?? "";

  await first.kill();
  await until("the connection is broken", () => before.over() !== undefined);
  sessions.set("a", 2).set("b", 1);
  await using after = await openStream(`${second.url}/v1/sessions?watch=true`, {
    cookie,
    "last-event-id": lastEventId,
  });
  await until("the list is there", () => shown(after).includes("synced"));
  expect(shown(after)).toEqual(["reset", "added a@2", "added b@1", "synced"]);
  sessions.delete("a");
  await until("the change is there", () => shown(after).includes("deleted a@2"));
  expect(after.over()).toBeUndefined();
});
