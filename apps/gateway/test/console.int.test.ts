import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { brotliCompressSync, gunzipSync, gzipSync, brotliDecompressSync } from "node:zlib";
import { until } from "@muster/testkit";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startGatewayWorld, type Gateway, type GatewayWorld } from "./gateway-world.ts";

const PAGE = "<!doctype html><title>the console</title>";
const SCRIPT = "console.log('the console');".repeat(100);

let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld({ listPools: () => ({ pools: [] }) });
  const directory = join(world.directory, "console");
  await mkdir(join(directory, "assets"), { recursive: true });
  await writeFile(join(world.directory, "secret.txt"), "a secret");
  await writeFile(join(directory, "index.html"), PAGE);
  await writeFile(join(directory, "icon.svg"), "<svg xmlns='http://www.w3.org/2000/svg'/>");
  await writeFile(join(directory, "assets", "main-1a2b3c.js"), SCRIPT);
  await writeFile(join(directory, "assets", "main-1a2b3c.js.br"), brotliCompressSync(SCRIPT));
  await writeFile(join(directory, "assets", "main-1a2b3c.js.gz"), gzipSync(SCRIPT));
  gateway = await world.start({ GATEWAY_CONSOLE_DIR: directory });
});

afterAll(() => world[Symbol.asyncDispose]());

const get = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  gateway.ask(path, { token: null, headers });

it.each(["/", "/index.html", "/queues/a", "/work?phase=RUNNING", "/v1x", "/authors"])(
  "sends the page at %s, which no cache keeps",
  async (path) => {
    const { status, headers, text } = await get(path);
    expect([status, headers["content-type"], headers["cache-control"]]).toEqual([
      200,
      "text/html; charset=utf-8",
      "no-store",
    ]);
    expect(text).toBe(PAGE);
  },
);

it.each(["/v1/pods", "/v1", "/auth/nowhere", "/healthz/x", "/openapi.json/x", "/assets/main-old.js"])(
  "has a problem and no page for %s",
  async (path) => {
    const { status, headers } = await gateway.ask(path);
    expect([status, headers["content-type"]]).toEqual([404, "application/problem+json"]);
  },
);

it("answers a change of a page with a problem", async () => {
  expect((await gateway.ask("/queues/a", { method: "POST", body: {} })).json).toMatchObject({ status: 404 });
});

it("lets browsers cache an asset for a year, because its name contains its version", async () => {
  const { headers, text } = await get("/assets/main-1a2b3c.js");
  expect(headers["content-type"]).toMatch(/^(text|application)\/javascript/);
  expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  expect(text).toBe(SCRIPT);
  expect((await get("/icon.svg")).headers["cache-control"]).toBe("no-cache");
});

it.each([
  ["br", brotliDecompressSync],
  ["gzip", gunzipSync],
] as const)("sends the file compressed with %s to clients that accept it", async (encoding, decompress) => {
  const agent = new Agent();
  const { headers, body } = await request(`${gateway.url}/assets/main-1a2b3c.js`, {
    dispatcher: agent,
    headers: { "accept-encoding": encoding },
  });
  expect([headers["content-encoding"], headers["vary"]]).toEqual([encoding, "accept-encoding"]);
  expect(headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  expect(decompress(Buffer.from(await body.arrayBuffer())).toString()).toBe(SCRIPT);
  await agent.destroy();
});

it.each(["/", "/queues/a", "/assets/main-1a2b3c.js"])(
  "allows neither inline content nor another host at %s",
  async (path) => {
    const { headers } = await get(path);
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
    });
    const policy = String(headers["content-security-policy"]);
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"])
      expect(policy.split("; ")).toContain(part);
  },
);

it.each([
  "/../secret.txt",
  "/assets/../../secret.txt",
  "/%2e%2e/secret.txt",
  "/assets/..%2f..%2fsecret.txt",
  "/..%5csecret.txt",
  "/a\0/../secret.txt",
  "/%00",
  `/${"a".repeat(10_000)}`,
])("never serves a file outside its folder: %#", async (path) => {
  const socket = connect(gateway.port, "127.0.0.1");
  let text = "";
  socket.setEncoding("utf8").on("data", (part: string) => (text += part));
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
  await until("the answer arrives", () => text.includes("\r\n\r\n"));
  expect(text).toMatch(/^HTTP\/1\.1 (200|400|404|414) /);
  expect(text).not.toContain("a secret");
  socket.destroy();
});

it("reports that no console is installed if its files are missing", async () => {
  const bare = await world.start({ GATEWAY_CONSOLE_DIR: join(world.directory, "nothing") });
  for (const path of ["/", "/queues/a"]) {
    const { status, headers, text } = await bare.ask(path, { token: null });
    expect([status, headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
    expect(text).toContain("No web console is installed");
    expect(text).not.toMatch(/<script|style=|<style/);
  }
  expect((await bare.ask("/v1/nowhere")).status).toBe(404);
});
