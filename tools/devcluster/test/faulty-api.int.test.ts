import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type FaultyApi, startFaultyApi } from "../src/index.ts";
import { at, getText } from "../src/apiserver/json.ts";
import { type Api, api, configMap, nameIn, listNames, getVersion } from "./conformance/api.ts";
import { type Cluster, clusters } from "./conformance/clusters.ts";

/** The API as the holder of a kubeconfig reaches it. */
function throughKubeconfig(cluster: Cluster, file: string): Api {
  const config = new KubeConfig();
  config.loadFromFile(file);
  const server = config.getCurrentCluster();
  return api({
    ...cluster,
    kubeconfig: file,
    url: server?.server ?? "",
    ca: Buffer.from(server?.caData ?? "", "base64").toString(),
    token: config.getCurrentUser()?.token ?? "",
  });
}

describe.each(clusters())("in front of $title", ({ start, skip }) => {
  let cluster: Cluster;
  let direct: Api;
  let faulty: FaultyApi;
  let client: Api;
  let directory: string;
  let maps: string;
  beforeAll(async () => {
    if (skip) return;
    directory = await mkdtemp(join(tmpdir(), "muster-faulty-"));
    cluster = await start();
    direct = api(cluster);
    faulty = await startFaultyApi({ kubeconfig: cluster.kubeconfig, directory, seed: 1 });
    client = throughKubeconfig(cluster, faulty.kubeconfig);
    maps = `/api/v1/namespaces/${await direct.namespace()}/configmaps`;
  });
  afterAll(async () => {
    if (skip) return;
    await faulty[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  describe.skipIf(skip)("a faulty API", () => {
    afterEach(async () => {
      await faulty.remove();
    });

    it("forwards everything without rules", async () => {
      const made = await client.post(maps, configMap("plain"));
      expect(made.code).toBe(201);
      expect((await direct.get(`${maps}/plain`)).body).toEqual(made.body);
      await using watch = await client.watch(`${maps}?watch=true&resourceVersion=${getVersion(made.body)}`);
      await direct.patch(`${maps}/plain`, "merge", { data: { key: "other" } });
      expect((await watch.take(1)).map(({ type, object }) => [type, nameIn(object)])).toEqual([["MODIFIED", "plain"]]);
      expect((await client.delete(`${maps}/plain`, { propagationPolicy: "Background" })).code).toBe(200);
    });

    it("refuses clients without their own token", async () => {
      expect((await client.call("GET", maps, { token: "" })).code).toBe(401);
      expect((await client.call("GET", maps, { token: cluster.token })).code).toBe(401);
    });

    it.each([
      [409, "Conflict"],
      [429, "TooManyRequests"],
      [500, "InternalError"],
      [503, "ServiceUnavailable"],
    ] as const)("answers %d the given number of times, without reaching the API server", async (code, reason) => {
      await faulty.inject({
        id: `answer-${code}`,
        match: { verbs: ["create"], resources: ["configmaps"] },
        fault: { do: "answer", code, retryAfterSeconds: 3 },
        times: 2,
      });
      for (let turn = 0; turn < 2; turn++) {
        const refused = await client.post(maps, configMap(`refused-${code}`));
        expect(refused.code).toBe(code);
        expect(refused.body).toMatchObject({ kind: "Status", reason, code });
        expect(refused.headers["retry-after"]).toBe(code === 429 || code === 503 ? "3" : undefined);
      }
      expect((await direct.get(`${maps}/refused-${code}`)).code).toBe(404);
      expect((await client.post(maps, configMap(`refused-${code}`))).code).toBe(201);
      const { rules } = await faulty.remove(`answer-${code}`);
      expect(rules).toEqual([]);
    });

    it("distinguishes clients by their kubeconfigs", async () => {
      const one = throughKubeconfig(cluster, await faulty.kubeconfigFor("one"));
      const two = throughKubeconfig(cluster, await faulty.kubeconfigFor("two"));
      await faulty.inject({ id: "one", match: { who: ["one"] }, fault: { do: "answer", code: 500 } });
      expect((await one.get(maps)).code).toBe(500);
      expect((await two.get(maps)).code).toBe(200);
      const { rules } = await faulty.counters();
      expect(rules).toEqual([{ id: "one", matched: 1, injected: 1 }]);
    });

    it("affects a fraction of the requests", async () => {
      await faulty.inject({ id: "half", match: { verbs: ["list"] }, fault: { do: "answer", code: 500 }, share: 0.5 });
      const codes: number[] = [];
      for (let turn = 0; turn < 20; turn++) codes.push((await client.get(maps)).code);
      expect(new Set(codes)).toEqual(new Set([200, 500]));
    });

    it("loses an answer after the API server has executed the request", async () => {
      await faulty.inject({ match: { verbs: ["create"] }, fault: { do: "lose-answer" }, times: 1 });
      await expect(client.post(maps, configMap("unheard"))).rejects.toMatchObject({ code: "ECONNRESET" });
      expect((await direct.get(`${maps}/unheard`)).code).toBe(200);
      expect((await client.post(maps, configMap("unheard"))).body).toMatchObject({ reason: "AlreadyExists" });
    });

    it("breaks the connection before the API server sees the request", async () => {
      await faulty.inject({ match: { verbs: ["create"] }, fault: { do: "drop" }, times: 1 });
      await expect(client.post(maps, configMap("unsent"))).rejects.toMatchObject({ code: "ECONNRESET" });
      expect((await direct.get(`${maps}/unsent`)).code).toBe(404);
    });

    it("forwards a delayed request later, and not at all if its client has disconnected", async () => {
      await faulty.inject({ match: { verbs: ["create"] }, fault: { do: "delay", ms: 50 }, times: 1 });
      const before = performance.now();
      expect((await client.post(maps, configMap("late"))).code).toBe(201);
      expect(performance.now() - before).toBeGreaterThanOrEqual(49);
    });

    it("drops selected open watches on demand", async () => {
      const { watchesDropped } = await faulty.counters();
      await using watch = await client.watch(`${maps}?watch=true&resourceVersion=0`);
      await using other = await client.watch("/api/v1/nodes?watch=true");
      await faulty.dropWatches({ resources: ["configmaps"] });
      await watch.rest();
      const counters = await until("the watch is forgotten", async () => {
        const now = await faulty.counters();
        return now.openWatches === 1 && now;
      });
      expect(counters.watchesDropped).toBe(watchesDropped + 1);
      await direct.post("/api/v1/nodes", { metadata: { name: "seen" } });
      expect(await other.take(1)).toMatchObject([{ type: "ADDED", object: { metadata: { name: "seen" } } }]);
      await direct.delete("/api/v1/nodes/seen");
    });

    it("silences watches: open to the client, without any further bytes", async () => {
      const list = await direct.get(maps);
      const from = getText(list.body, "metadata", "resourceVersion");
      const watch = await client.watch(`${maps}?watch=true&resourceVersion=${from}`);
      await faulty.silenceWatches();
      await using healthy = await client.watch(`${maps}?watch=true&resourceVersion=${from}`);
      await direct.post(maps, configMap("unseen"));
      expect(await healthy.take(1)).toHaveLength(1);
      let heard = 0;
      const listen = async (one: typeof watch): Promise<void> => {
        if ((await one.next()) !== undefined) heard += 1;
      };
      const end = listen(watch);
      await direct.post(maps, configMap("unseen-too"));
      expect(await healthy.take(1)).toHaveLength(1);
      expect(heard).toBe(0);
      await watch[Symbol.asyncDispose]();
      await end;
      expect(heard).toBe(0);
    });

    it("expires open watches", async () => {
      const expired = { type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } };
      await using watch = await client.watch(`${maps}?watch=true`);
      await until("the watch has sent an event", async () => (await watch.next()) !== undefined);
      await faulty.expireWatches();
      const events = await watch.rest();
      expect(events.at(-1)).toMatchObject(expired);
    });

    it("is unavailable for a time: open connections break, and new ones are refused", async () => {
      await using watch = await client.watch(`${maps}?watch=true`);
      await faulty.goAway(3_600_000);
      await watch.rest();
      await expect(client.get(maps)).rejects.toMatchObject({ code: "ECONNREFUSED" });
      await faulty.comeBack();
      expect((await client.get(maps)).code).toBe(200);
      const { timesAway } = await faulty.goAway(1);
      expect(timesAway).toBe(2);
      await until("it is back by itself", async () => (await client.get(maps)).code === 200);
    });

    it("shows the effects of a rule, removes it by its id, and refuses one that no request can match", async () => {
      const counters = await faulty.inject({ id: "far", match: {}, fault: { do: "answer", code: 500 }, times: 1 });
      expect(counters.rules).toEqual([{ id: "far", matched: 0, injected: 0 }]);
      expect((await client.get(maps)).code).toBe(500);
      expect((await faulty.remove("far")).rules).toEqual([]);
      await expect(faulty.inject({ match: {}, fault: { do: "delay", ms: -1 } })).rejects.toThrow(/ms/);
    });

    it("reveals the credentials for the API server to no client", async () => {
      expect(await readFile(faulty.kubeconfig, "utf8")).not.toContain(cluster.token);
      const echoed = await client.get("/api/v1/namespaces/none");
      expect(JSON.stringify(echoed.headers) + echoed.text).not.toContain(cluster.token);
    });

    it("forwards large lists completely to a client that reads slowly", async () => {
      for (let index = 0; index < 5; index++) {
        await direct.post(maps, configMap(`large-${index}`, { data: { text: "y".repeat(500_000) } }));
      }
      const list = await client.get(maps);
      expect(listNames(list.body).filter((name) => name.startsWith("large-"))).toHaveLength(5);
      expect(getText(list.body, "kind")).toBe("ConfigMapList");
      expect(at(list.body, "items")).toEqual(at((await direct.get(maps)).body, "items"));
    });
  });
});

it("leaves nothing listening, and no connection open, when it stops with open watches", async () => {
  const [first] = clusters();
  await using cluster = await first!.start();
  const directory = await mkdtemp(join(tmpdir(), "muster-faulty-"));
  const faulty = await startFaultyApi({ kubeconfig: cluster.kubeconfig, directory, seed: 1 });
  const client = throughKubeconfig(cluster, faulty.kubeconfig);
  await using watch = await client.watch("/api/v1/pods?watch=true");
  await faulty[Symbol.asyncDispose]();
  expect(await watch.rest()).toEqual([]);
  const socket = connect(Number(new URL(faulty.url).port), "127.0.0.1");
  const [error] = (await once(socket, "error").catch((reason: unknown) => [reason])) as [{ code: string }];
  expect(error.code).toBe("ECONNREFUSED");
  await rm(directory, { recursive: true, force: true });
});
