import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats, serveMethods } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { SessionService } from "@muster/proto";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startGateway, type RunningGateway } from "./a-gateway.ts";
import { inProcess, startCommand } from "./in-process.ts";

const served = new AsyncDisposableStack();
let server: TestNats;
let gateway: RunningGateway;

beforeAll(async () => {
  server = served.use(await startTestNats());
  const directory = await mkdtemp(join(tmpdir(), "muster-audit-"));
  served.defer(() => rm(directory, { recursive: true, force: true }));
  gateway = served.use(await startGateway(server, directory));
  const bus = served.use(await connectNats({ url: server.url, token: server.token, name: "sessions" }));
  const missing = ({ name }: { readonly name: string }) => throwFault({ code: "not_found", kind: "session", id: name });
  const handlers = Object.fromEntries(Object.keys(SessionService.methods).map((method) => [method, missing]));
  const own = { ...handlers, cancelSession: ({ name }: { readonly name: string }) => cancelled(name) };
  served.use(await serveMethods(bus, SessionService, own as never, { version: "1.0.0", description: "for a test" }));
});
afterAll(() => served.disposeAsync());

const cancelled = (name: string) =>
  name === "missing"
    ? throwFault({ code: "not_found", kind: "session", id: name })
    : Promise.resolve({ session: { name } });

async function cancel(name: string, body?: object): Promise<number> {
  const headers = { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" };
  const reply = await fetch(`${gateway.url}/v1/sessions/${name}/cancel`, {
    method: "POST",
    headers,
    body: JSON.stringify(body ?? {}),
  });
  await reply.body?.cancel();
  return reply.status;
}

const envOf = ({ url, token }: { readonly url: string; readonly token: string }) =>
  url.startsWith("http")
    ? { MUSTER_SERVER: url, MUSTER_TOKEN: token }
    : { MUSTER_NATS_URL: url, MUSTER_NATS_TOKEN: token };

/** Users pass `--server`, and operators call services over NATS. */
const WAYS = [
  ["through the gateway", () => ({ url: gateway.url, token: gateway.token })],
  ["over NATS", () => ({ url: server.url, token: server.token })],
] as const;

describe.each(WAYS)("%s", (way, world) => {
  const prefix = way.replaceAll(" ", "-").toLowerCase();

  it("lists changes with user and outcome, the newest last", async () => {
    expect([await cancel(`${prefix}-a`), await cancel("missing"), await cancel(`${prefix}-b`)]).toEqual([
      200, 404, 200,
    ]);
    const { code, out } = await inProcess(["audit", "--limit", "3"], world());
    expect(code).toBe(0);
    expect(out[0]).toMatch(/^TIME +USER +CHANGE +NAMESPACE +OBJECT +FROM +OUTCOME/);
    expect(out.slice(1).map((line) => line.split(/ {2,}/).slice(2))).toEqual([
      ["CancelSession", "default", `sessions/${prefix}-a`, "127.0.0.1", "done"],
      ["CancelSession", "default", "sessions/missing", "127.0.0.1", "404 NOT_FOUND"],
      ["CancelSession", "default", `sessions/${prefix}-b`, "127.0.0.1", "done"],
    ]);
  });

  it("filters changes, and prints JSON", async () => {
    const { out } = await inProcess(
      ["audit", "--since", "1h", "--resource", `sessions/${prefix}-b`, "-o", "json"],
      world(),
    );
    const [change, ...more] = JSON.parse(out.join("\n")) as Record<string, unknown>[];
    expect(more).toEqual([]);
    expect(change).toMatchObject({ resource: "sessions", name: `${prefix}-b`, verb: "update", status: 200 });
    const none = await inProcess(["audit", "--user", "missing"], world());
    expect(none.out).toEqual(["no changes"]);
  });

  it("lists refusals separately", async () => {
    expect(await cancel(`${prefix}-refused`, { wrong: 1 })).toBe(400);
    const { out } = await inProcess(["audit", "--refused", "--limit", "1"], world());
    expect(out[1]).toContain(`sessions/${prefix}-refused`);
    expect(out[1]).toMatch(/400 INVALID_REQUEST$/);
  });

  it("prints each later change once until it is interrupted", async () => {
    const running = startCommand(["audit", "-f", "--limit", "1", "-o", "json"], { env: envOf(world()) });
    const names = (): unknown[] =>
      running
        .stdout()
        .split("\n")
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { name: unknown }).name);
    await until("the newest change is listed", () => names().length === 1);
    await cancel(`${prefix}-later`);
    await cancel(`${prefix}-last`);
    await until("the later changes are listed", () => names().includes(`${prefix}-last`));
    running.interrupt();
    expect((await running.ended).code).toBe(130);
    expect(names().slice(1)).toEqual([`${prefix}-later`, `${prefix}-last`]);
  });
});

it("prints no part of the token", async () => {
  const { out } = await inProcess(["audit", "-o", "json"], { url: server.url, token: server.token });
  expect(out.join("\n")).not.toContain((await readFile(gateway.tokenFile, "utf8")).trim());
});
