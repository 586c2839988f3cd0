import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { subjects, streams } from "@muster/proto";
import { startOtlpCollector, type OtlpCollector, buildProcessEnv, until } from "@muster/testkit";
import { startTelemetry } from "@muster/tracing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makeSet, makeSpec, makePlacedSet } from "./a-set.ts";
import { buildPodName, type ReplicaSet } from "../src/domain/replica-set.ts";
import type { PassDeps } from "../src/pass-deps.ts";
import { EMBEDDED } from "./api-servers.ts";
import { openFarmWorld, waitUntilReady, waitForSettled, buildSpec, type FarmWorld } from "./farm-world.ts";
import { openPassWorld, type PassWorld } from "./pass-world.ts";

const CLI = fileURLToPath(new URL("../../cli/src/main.ts", import.meta.url));
const ASKED = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT = `00-${ASKED}-00f067aa0ba902b7-01`;
/** All there is to do for a set of a test needs fewer passes. */
const PASSES = 10;
const TAKES_ALL: Pick<PassDeps["pods"], "create"> = {
  create: ({ name }, { ordinal }) =>
    Promise.resolve({ kind: "made", uid: buildPodName(name, ordinal), confirmed: true }),
};
let collector: OtlpCollector;

beforeEach(async () => {
  collector = await startOtlpCollector();
  Object.assign(process.env, collector.variables);
});
afterEach(async () => {
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  await collector[Symbol.asyncDispose]();
});

const changes = () => collector.spans.filter(({ name }) => name === "change replica set");
const passes = () => collector.spans.filter(({ name }) => name === "replica set pass");

/** The attributes of the span of a pass with these steps. */
const planned = (...steps: readonly string[]) => ({
  "muster.replica_set": "web",
  "muster.plan": { values: steps.map((stringValue) => ({ stringValue })) },
  "muster.plan.steps": steps.length,
});

async function recordOf(world: PassWorld, name: string): Promise<ReplicaSet> {
  const found = await world.sets.get(name);
  if (found === undefined || "unreadable" in found) throw new Error(`there is no set ${name}`);
  return found.record;
}

/** Passes until nothing is left to do; its pods are ready as soon as they have a place. */
async function settle(world: PassWorld, name: string): Promise<void> {
  const made = new Set<number>();
  await until(`${name} is settled`, async () => {
    const { kind: is } = await world.pass(name);
    const set = await recordOf(world, name);
    for (const { ordinal } of set.placements) {
      if (made.has(ordinal)) continue;
      made.add(ordinal);
      await world.putPod(set, ordinal);
    }
    await until("its pods are seen", () => world.world.podsOf(name).size === made.size);
    return is === "settled";
  });
}

it("a requested change is recorded in the trace of its request, and an idle pass in none", async () => {
  {
    await using _telemetry = await startTelemetry({ service: "farm", version: "1", env: process.env });
    await using world = await openPassWorld(TAKES_ALL);
    for (const node of ["n1", "n2"]) await world.putNode(node);
    await world.complete();
    await world.sets.create(
      "web",
      makeSet({ name: "web", traceparent: TRACEPARENT, spec: makeSpec({ nodeSelector: "", replicasDesired: 2 }) }),
    );
    await until("the set is seen", () => world.world.set("web") !== undefined);
    await settle(world, "web");
    for (let pass = 0; pass < PASSES; pass += 1) expect(await world.pass("web")).toMatchObject({ kind: "settled" });
    const { traceparent, placements } = await recordOf(world, "web");
    expect(placements).toHaveLength(2);
    expect(traceparent).toBe(TRACEPARENT);
  }
  expect(changes()).toMatchObject([
    { traceId: ASKED, attributes: { "muster.replica_set": "web", "muster.because": "too-few" } },
  ]);
  expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([ASKED]));
  expect(passes().map(({ attributes }) => attributes)).toEqual([
    planned("change: too-few", "create: missing", "create: missing"),
    planned("publish-audits: not-published"),
  ]);
  const [pass] = passes();
  const steps = collector.spans.filter(({ parentSpanId }) => parentSpanId === pass?.spanId);
  expect(steps.map(({ name }) => name).toSorted()).toEqual(["change replica set", "create pod", "create pod"]);
});

it("a change without a request starts a trace for all of its effects", async () => {
  let own: string;
  {
    await using _telemetry = await startTelemetry({ service: "farm", version: "1", env: process.env });
    await using world = await openPassWorld(TAKES_ALL);
    await world.putNode("n1");
    await world.complete();
    await world.sets.create(
      "web",
      makePlacedSet(["gone"], {
        name: "web",
        traceparent: TRACEPARENT,
        spec: makeSpec({ nodeSelector: "", replicasDesired: 1 }),
      }),
    );
    await until("the set is seen", () => world.world.set("web") !== undefined);
    await settle(world, "web");
    const set = await recordOf(world, "web");
    expect(set.placements.map(({ node }) => node)).toEqual(["n1"]);
    own = set.traceparent.split("-")[1] ?? "";
  }
  expect(own).not.toBe(ASKED);
  expect(changes().map(({ traceId, attributes }) => [traceId, attributes["muster.because"]])).toEqual(
    expect.arrayContaining([
      [own, "node-ineligible"],
      [own, "transfer-done"],
    ]),
  );
  expect(changes().filter(({ traceId }) => traceId === ASKED)).toEqual([]);
});

it("a command, its passes, pods and audits form one trace", async () => {
  const endpoint = collector.variables;
  await using world = await openFarmWorld(await EMBEDDED.start(), 2);
  await world.startFarm(endpoint);
  await waitUntilReady(world);
  await Promise.all(["n-0", "n-1"].map((node) => world.label(node, { traced: "yes" })));
  await world.farms.applyReplicaSet({ requestId: "a", name: "web", spec: buildSpec("traced=yes", 1) });
  await waitForSettled(world, "web", 1);
  await muster(world, endpoint, "scale", "web", "--replicas", "2");
  await waitForSettled(world, "web", 2);
  const asked = () =>
    collector.spans.find(
      ({ service, attributes }) => service === "muster" && /^ScaleReplicaSet$/i.test(String(attributes["rpc.method"])),
    );
  const { traceId } = await until("the command's span has come", asked);
  await until("the pass's span has come", () => changes().some((span) => span.traceId === traceId));
  await until("the span of its pod has come", () =>
    collector.spans.some((span) => span.traceId === traceId && span.name === "create pod"),
  );
  await until("it is audited", () => world.bus.readMessage(streams.audit.name, subjects.farmAudited("web"), 1));
  const audits = await until("both audits are there", async () => {
    const audits: unknown = JSON.parse(await muster(world, endpoint, "audit", "web", "-o", "json"));
    const rows = audits as { event: string; traceparent: string }[];
    return rows.filter(({ traceparent }) => traceparent.includes(traceId)).length === 2 && rows;
  });
  const of = audits.filter(({ traceparent }) => traceparent.includes(traceId)).map(({ event }) => event);
  expect(of).toEqual(["SCALED", "REPLICATION_CONTROLLER_RETARGET"]);
  const [made] = (await world.pods("web")).filter(({ metadata }) => metadata?.name === "web-2");
  expect(Object.values(made?.metadata?.annotations ?? {}).join()).toContain(traceId);
}, 300_000);

async function muster(world: FarmWorld, env: Readonly<Record<string, string>>, ...args: string[]): Promise<string> {
  const { url, token } = world.nats;
  const { stdout } = await promisify(execFile)(process.execPath, [CLI, ...args], {
    env: { ...buildProcessEnv(), MUSTER_NATS_URL: url, MUSTER_NATS_TOKEN: token, ...env },
  });
  return stdout;
}
