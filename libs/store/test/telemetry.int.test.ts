import { startTestNats, startOtlpCollector, scrapeMetrics } from "@muster/testkit";
import { inSpan, startTelemetry } from "@muster/tracing";
import { expect, it } from "vitest";
import { runWhileLeader, openBucket } from "../src/index.ts";
import { connectTo, makeJsonCodec } from "./connected.ts";
import { note, openJournal } from "./journal.ts";

it("creates spans within a trace, and measures every operation, by name of the bucket and never by key", async () => {
  await using collector = await startOtlpCollector();
  Object.assign(process.env, collector.variables);
  const telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: process.env });
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const bucket = await openBucket(connection, { name: "measured", codec: makeJsonCodec<number>() });
  const stop = new AbortController();
  await runWhileLeader(
    connection,
    { lock: "measured", holder: "h", ttlMs: 5000, signal: stop.signal },
    async ({ token }) => {
      await using journal = await openJournal(connection, "measured-log", token);
      await journal.transact(note("a"));
      stop.abort();
    },
  );
  await bucket.create("outside", 1);
  await inSpan("test", "root", {}, async () => {
    await bucket.create("secret-key", 1);
    await bucket.update("secret-key", 2, 999).catch(() => undefined);
    await bucket.get("secret-key");
  });
  const text = await scrapeMetrics(telemetry);
  await telemetry[Symbol.asyncDispose]();

  const root = collector.spans.find(({ name }) => name === "root");
  const children = collector.spans.filter(({ parentSpanId }) => parentSpanId === root?.spanId);
  expect(children.map(({ name, failed }) => [name, failed])).toEqual([
    ["create measured", false],
    ["update measured", true],
    ["get measured", false],
  ]);
  expect(children[0]?.attributes).toEqual({
    "db.system.name": "nats",
    "db.operation.name": "create",
    "db.collection.name": "measured",
  });
  expect(collector.spans.filter(({ name }) => name === "create measured")).toHaveLength(1);

  const counted = (operation: string, collection: string): RegExp =>
    new RegExp(
      `db_client_operation_duration(_seconds)?_count\\{db_system_name="nats",db_operation_name="${operation}",db_collection_name="${collection}"`,
    );
  for (const of of [counted("create", "measured"), counted("get", "measured"), counted("append", "measured-log")])
    expect(text).toMatch(of);
  expect(text).toMatch(/db_operation_name="update",db_collection_name="measured",error_type="conflict"/);
  expect(text).toMatch(/muster_lock_changes_total\{muster_lock="measured",muster_lock_state="leading"[^}]*\} 1/);
  expect(text).not.toContain("secret-key");
});

it("exports the size of each bucket once, and delays no scrape while the server is unreachable", async () => {
  await using telemetry = await startTelemetry({ service: "tested", version: "1.0.0", env: {} });
  await using server = await startTestNats();
  await using connection = await connectTo(server);
  const limits = { name: "filled", codec: makeJsonCodec<string>(), maxBytes: 10_000 };
  const bucket = await openBucket(connection, limits);
  await openBucket(connection, limits);
  await bucket.create("key", "x".repeat(7000));
  const text = await scrapeMetrics(telemetry);
  const seen = (metric: string): number[] =>
    [...text.matchAll(new RegExp(`^${metric}\\{[^}]*db_collection_name="filled"[^}]*\\} (\\d+)`, "gm"))].map(
      ([, value]) => Number(value),
    );
  expect(seen("muster_bucket_limit")).toEqual([10_000]);
  expect(seen("muster_bucket_size")).toEqual([expect.closeTo(7100, -2)]);
  await server.kill();
  // The request waits until NATS is reachable.
  const asked = connection.request("$JS.API.INFO", "", { timeout: 5000 }).catch(() => "asked");
  const scraped = scrapeMetrics(telemetry);
  expect(await Promise.race([scraped.then(() => "scraped"), asked])).toBe("scraped");
  expect(await scraped).toContain('db_collection_name="filled"');
  await server.start();
});
