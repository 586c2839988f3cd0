import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type MachineFault, type MachineMatch, type Machines, startMachines } from "@muster/devcluster";
import { findFault } from "@muster/faults";
import { findFreePort, until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openLocal } from "../src/providers/local/open-local.ts";
import { localSettings } from "../src/providers/local/settings.ts";
import type { BootRequest, NodeProvider } from "../src/providers/provider.ts";
import { buildPolicy } from "./build-node.ts";
import { describeProvider } from "./provider-conformance.ts";

const never = new AbortController().signal;
const TYPES = [
  { name: "small", cpu: "2", memory: "4Gi" },
  { name: "large", cpu: "8", memory: "32Gi", spot: false },
];
const IMAGES = [
  { id: "old", createdAtMs: 1, properties: { os: "linux" } },
  { id: "new", createdAtMs: 2, properties: { os: "linux" } },
  { id: "undated", properties: { os: "linux" } },
];
const BOOT: BootRequest = {
  nodeName: "elastic-1",
  pool: "elastic",
  instanceType: "small",
  image: "new",
  spot: false,
  zone: undefined,
  gpus: 0,
  volumeGib: 20,
  privateIpOnly: false,
  labels: { pool: "elastic", "muster.dev/node": "elastic-1" },
  taints: [{ key: "muster.dev/unopened", effect: "NoSchedule" }],
};

/** Starts a cloud whose machines join no cluster: these tests cover the HTTP protocol. */
function startCloud(directory: string): Promise<Machines> {
  const nothing = (): Promise<void> => Promise.resolve();
  const nodes = { join: () => Promise.resolve({ leave: nothing, die: nothing }) };
  return startMachines({
    directory,
    nodes,
    types: TYPES,
    images: IMAGES,
    bootMs: { from: 10, to: 10 },
    endMs: 10,
    faults: [{ id: "full", match: { zones: ["zone-b"], instanceTypes: ["large"] }, fault: { do: "no-capacity" } }],
  });
}

function open(cloud: Pick<Machines, "url" | "tokenFile">, timeoutMs = 60_000, owner?: string): Promise<NodeProvider> {
  const { url, tokenFile } = cloud;
  const settings = localSettings.parse({ kind: "local", url, tokenFile, ...(owner === undefined ? {} : { owner }) });
  return openLocal({ name: "cloud", settings, timeoutMs });
}

describeProvider("local", async () => {
  await using started = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-local-"));
  started.defer(() => rm(directory, { recursive: true, force: true }));
  const cloud = started.use(await startCloud(directory));
  const provider = started.use(await open(cloud));
  const other = started.use(await open(cloud, 60_000, "others"));
  const all = started.move();
  return {
    provider,
    boot: BOOT,
    imageProperties: { os: "linux" },
    knowsTokens: true,
    short: { boot: { ...BOOT, instanceType: "large", zone: "zone-b" }, zone: "zone-b" },
    makeForeign: async () => {
      await other.start({ ...BOOT, nodeName: "foreign" }, never);
    },
    unknown: { instanceId: "i-ffffffff", nodeName: "unknown" },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
});

describe("the provider local", () => {
  let directory: string;
  let cloud: Machines;
  let provider: NodeProvider;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "muster-local-"));
    cloud = await startCloud(directory);
  });
  beforeEach(async () => {
    provider = await open(cloud);
  });
  afterEach(async () => {
    await provider[Symbol.asyncDispose]();
    await cloud.remove();
  });
  afterAll(async () => {
    await cloud[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  let count = 0;
  const fresh = (more: Partial<BootRequest> = {}): BootRequest => ({
    ...BOOT,
    nodeName: `elastic-a${++count}`,
    ...more,
  });
  const inject = (fault: MachineFault, match: MachineMatch = {}) =>
    cloud.inject({ id: `r-${++count}`, match, fault, times: 1 });
  const faultFrom = (call: Promise<unknown>) =>
    call.then(
      () => "no fault",
      (error: unknown) => findFault(error) ?? error,
    );
  const find = async (nodeName: string) =>
    (await provider.list(never)).find((instance) => instance.nodeName === nodeName);

  it("lists when an instance has joined, and its Kubernetes node", async () => {
    const boot = fresh({ zone: "zone-b" });
    expect(await provider.start(boot, never)).toMatchObject({ kind: "started", zone: "zone-b" });
    const instance = await until("the instance has joined", async () => {
      const found = await find(boot.nodeName);
      return found?.kubernetesNode !== undefined && found;
    });
    expect(instance).toMatchObject({
      state: "running",
      zone: "zone-b",
      addresses: ["127.0.0.1"],
      kubernetesNode: boot.nodeName,
      lostAtMs: undefined,
      failure: undefined,
    });
  });

  it("reports a shortage in a zone that does not exist", async () => {
    expect(await provider.start(fresh({ zone: "zone-z" }), never)).toMatchObject({
      kind: "no-capacity",
      zone: "zone-z",
      isUnknownZone: true,
    });
  });

  it("reports a shortage everywhere without a zone", async () => {
    await inject({ do: "no-capacity" });
    expect(await provider.start(fresh(), never)).toEqual({
      kind: "no-capacity",
      zone: undefined,
      subnet: undefined,
      message: "there is no on-demand machine of type small now",
    });
  });

  it.each([
    ["a type that there is not", { instanceType: "huge" }, "huge is none of small, large"],
    ["a type that is not to be had as spot", { instanceType: "large", spot: true }, "large is not to be had as spot"],
  ])("reports that %s is unsupported", async (_title, more, message) => {
    expect(await provider.start(fresh(more), never)).toEqual({ kind: "unsupported", message });
  });

  it("chooses the newest image with the properties; one without a date counts as the oldest", async () => {
    expect(await provider.findImage({ os: "linux" }, never)).toBe("new");
    expect(await faultFrom(provider.findImage({ os: "plan9" }, never))).toMatchObject({ code: "not_found" });
  });

  it("does not start a second instance when the answer to the first order was lost", async () => {
    const boot = fresh();
    await inject({ do: "lose-answer" }, { calls: ["create"] });
    expect(await faultFrom(provider.start(boot, never))).toMatchObject({ code: "unavailable" });
    expect(await provider.start(boot, never)).toMatchObject({ kind: "started" });
    expect((await provider.list(never)).filter(({ nodeName }) => nodeName === boot.nodeName)).toHaveLength(1);
  });

  it("reports before the first boot which types are missing", async () => {
    const instanceTypes = ["small", "huge"].map((name) => ({ name, cpuMilli: 1, memoryBytes: 1, gpus: 0 }));
    expect(await provider.checkPool(buildPolicy({ instanceTypes }), never)).toEqual([
      "there is no instance type huge; one of small, large is needed",
    ]);
    expect(await provider.checkPool(buildPolicy(), never)).toEqual([]);
  });

  it("refuses an existing name with other properties", async () => {
    const boot = fresh();
    await provider.start(boot, never);
    expect(await faultFrom(provider.start({ ...boot, instanceType: "large" }, never))).toMatchObject({
      code: "invalid_request",
      reason: `${boot.nodeName} was asked for with other properties (conflict)`,
    });
  });

  it.each<[string, MachineFault, object]>([
    [
      "a rate limit",
      { do: "answer", code: 429, retryAfterSeconds: 7 },
      { code: "unavailable", dependency: "provider cloud (asked too often)", retryAfterMs: 7_000 },
    ],
    ["an error of the cloud", { do: "answer", code: 500 }, { code: "unavailable", retryAfterMs: 1_000 }],
    ["a broken connection", { do: "drop" }, { code: "unavailable", dependency: "provider cloud" }],
    ["a request that the cloud does not take", { do: "answer", code: 400 }, { code: "invalid_request" }],
  ])("reports %s as a fault", async (_title, fault, expected) => {
    await inject(fault, { calls: ["list"] });
    expect(await faultFrom(provider.list(never))).toMatchObject(expected);
    expect(await provider.list(never)).toBeInstanceOf(Array);
  });

  it("fails on an answer that takes too long, and names the limit", async () => {
    await using hasty = await open(cloud, 50);
    await inject({ do: "delay", ms: 60_000 });
    expect(await faultFrom(hasty.list(never))).toEqual({
      code: "deadline_exceeded",
      operation: "listing instances",
      timeoutMs: 50,
    });
  });

  it("aborts at its signal, and when it is closed", async () => {
    await cloud.inject({ id: "slow", match: {}, fault: { do: "delay", ms: 60_000 } });
    const stop = new AbortController();
    const listing = faultFrom(provider.list(stop.signal));
    const stopping = faultFrom(provider.stop({ instanceId: "i-1", nodeName: "n" }, never));
    const reason = new Error("enough");
    stop.abort(reason);
    expect(await listing).toBe(reason);
    await provider[Symbol.asyncDispose]();
    expect(await stopping).toMatchObject({ name: "AbortError" });
  });

  it("lists a spot instance with its loss, omits a vanished one, and lists a failed boot", async () => {
    const [spot, lost, failed] = [fresh({ spot: true }), fresh(), fresh()];
    await inject({ do: "boot-failure", message: "no disk" }, { nodeNames: [failed.nodeName] });
    for (const boot of [spot, lost, failed]) await provider.start(boot, never);
    await until("all instances are running", async () =>
      (await provider.list(never)).every(({ state }) => state !== "pending"),
    );
    await cloud.loseSpot(spot.nodeName, 60_000);
    await cloud.vanish(lost.nodeName);
    await until("the instance is gone", async () => (await find(lost.nodeName)) === undefined);
    expect((await find(spot.nodeName))?.lostAtMs).toBeGreaterThan(0);
    expect(await find(failed.nodeName)).toMatchObject({ failure: "no disk", kubernetesNode: undefined });
  });

  it("names the token file if the cloud does not know the token", async () => {
    const tokenFile = join(directory, "other-token");
    await writeFile(tokenFile, "other");
    await using foreign = await open({ ...cloud, tokenFile });
    expect(await faultFrom(foreign.list(never))).toMatchObject({ field: "providers.cloud.tokenFile" });
    await expect(open({ ...cloud, tokenFile: join(directory, "none") })).rejects.toThrow("ENOENT");
  });

  it.each([
    ["no JSON", "<html>"],
    ["other JSON", '{"instances":[{"instanceId":7}]}'],
  ])("refuses %s as an answer", async (_title, text) => {
    const server = createServer((_request, response) => response.end(text)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    try {
      await using odd = await open({ ...cloud, url: `http://127.0.0.1:${port}` });
      expect(await faultFrom(odd.list(never))).toEqual({
        code: "internal",
        operation: "listing instances: the answer of the provider cloud cannot be read",
      });
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("is unavailable while no server listens", async () => {
    const port = await findFreePort();
    await using unreachable = await open({ ...cloud, url: `http://127.0.0.1:${port}` });
    expect(await faultFrom(unreachable.start(fresh(), never))).toMatchObject({ code: "unavailable" });
  });

  it.each([
    [{ kind: "local", tokenFile: "t" }, "url"],
    [{ kind: "local", url: "ftp://a", tokenFile: "t" }, "url"],
    [{ kind: "local", url: "http://a", tokenFile: "t", token: "secret" }, "token"],
    [{ kind: "local", url: "http://a", tokenFile: "t", owner: "A b" }, "owner"],
  ])("refuses the settings %j for their %s", (settings, field) => {
    const parsed = localSettings.safeParse(settings);
    expect(JSON.stringify(parsed.error?.issues)).toContain(`"${field}"`);
  });
});
