import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { at, isObject, getList, getText } from "../src/apiserver/json.ts";
import { openJournal } from "../src/apiserver/journal.ts";
import { makeObjectStore } from "../src/apiserver/store.ts";
import { type ApiServer, startApiServer } from "../src/index.ts";
import { type Answer, type Api, api, configMap, nameIn, getVersion } from "./conformance/api.ts";
import { install } from "./conformance/widgets.ts";

const PROGRAM = join(import.meta.dirname, "programs/api-server.ts");
const MAPS = "/api/v1/namespaces/default/configmaps";

let directory: string;
let processes: ChildProcess[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-persist-"));
});
afterEach(async () => {
  await Promise.all(processes.map(kill));
  processes = [];
  await rm(directory, { recursive: true, force: true });
});

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** Starts the server as a separate process, on the port of the previous one if it had one. */
async function start(port = 0): Promise<{ child: ChildProcess; client: Api; port: number }> {
  const child = spawn(process.execPath, [PROGRAM, directory, String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  processes.push(child);
  const lines = createInterface({ input: child.stdout });
  const [line] = (await once(lines, "line")) as [string];
  const said: unknown = JSON.parse(line);
  if (!isObject(said)) throw new Error(line);
  const url = getText(said, "url");
  const client = api({
    url,
    token: getText(said, "token"),
    ca: getText(said, "ca"),
    kubeconfig: getText(said, "kubeconfig"),
    kubeletCertificate: { cert: "", key: "" },
    collects: true,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  });
  return { child, client, port: Number(new URL(url).port) };
}

/** The answers to a writer: the last acknowledged value of each name, and writes whose answer never came. */
type Answers = { readonly acknowledged: Map<string, Answer>; readonly unknown: Set<string> };

/** Creates, patches and deletes until the server is gone. */
async function storm(client: Api, writer: number, answers: Answers): Promise<void> {
  for (let turn = 0; ; turn++) {
    const name = `map-${writer}-${turn % 5}`;
    try {
      const answer = await write(client, name, turn);
      if (answer.code < 300) answers.acknowledged.set(name, answer);
    } catch {
      answers.unknown.add(name);
      return;
    }
  }
}

function write(client: Api, name: string, turn: number): Promise<Answer> {
  if (turn % 11 === 10) return client.delete(`${MAPS}/${name}`);
  if (turn % 3 === 0) return client.post(MAPS, configMap(name, { data: { turn: String(turn) } }));
  return client.patch(`${MAPS}/${name}`, "merge", { data: { turn: String(turn) } });
}

describe("an API server that keeps its state", () => {
  it("has every acknowledged write after a kill under load, and continues from there", async () => {
    let { child, client, port } = await start();
    for (let life = 0; life < 2; life++) {
      const answers: Answers = { acknowledged: new Map(), unknown: new Set() };
      const writers = Array.from({ length: 4 }, (_, writer) => storm(client, writer, answers));
      await until("there is something to lose", () => answers.acknowledged.size >= 15);
      await kill(child);
      await Promise.all(writers);
      ({ child, client, port } = await start(port));

      const list = await client.get(MAPS);
      const found = new Map(getList(list.body, "items").map((item) => [getText(item, "metadata", "name"), item]));
      for (const [name, { body }] of answers.acknowledged) {
        if (answers.unknown.has(name)) continue;
        const wasDeleted = getText(body, "kind") === "Status";
        expect(at(found.get(name), "data"), name).toEqual(wasDeleted ? undefined : at(body, "data"));
      }
      const acknowledged = [...answers.acknowledged.values()].map(({ body }) => Number(getVersion(body)));
      expect(Number(getVersion(list.body))).toBeGreaterThanOrEqual(Math.max(...acknowledged));
      const next = await client.post(MAPS, configMap(`after-${life}`));
      expect(Number(getVersion(next.body))).toBe(Number(getVersion(list.body)) + 1);
    }
  });

  it("sends a resumed watch the changes since its version", async () => {
    const first = await start();
    const seen = await first.client.post(MAPS, configMap("seen"));
    await first.client.post(MAPS, configMap("missed"));
    await kill(first.child);
    const { client } = await start(first.port);
    await using watch = await client.watch(`${MAPS}?watch=true&resourceVersion=${getVersion(seen.body)}`);
    expect((await watch.take(1)).map(({ type, object }) => [type, nameIn(object)])).toEqual([["ADDED", "missed"]]);
    await client.post(MAPS, configMap("new"));
    expect((await watch.take(1)).map(({ object }) => nameIn(object))).toEqual(["new"]);
  });

  it("never reports an object of a custom kind as missing, from its first answer on", async () => {
    const first = await start();
    await install(first.client, { group: "x.io", plural: "widgets", kind: "Widget", schema: { type: "object" } });
    const widgets = "/apis/x.io/v1/namespaces/default/widgets";
    await first.client.post(widgets, { apiVersion: "x.io/v1", kind: "Widget", metadata: { name: "kept" } });
    await kill(first.child);
    const codes: number[] = [];
    const ask = async (): Promise<boolean> => {
      const answer = await first.client.get(`${widgets}/kept`).catch(() => undefined);
      if (answer !== undefined) codes.push(answer.code);
      return codes.length >= 20;
    };
    const asking = until("it has answered often", ask, { timeoutMs: 60_000 });
    await Promise.all([start(first.port), asking]);
    expect(new Set(codes)).toEqual(new Set([200]));
  });

  it("keeps its credentials, so that clients need no new kubeconfig", async () => {
    const first = await start();
    await kill(first.child);
    const second = await start(first.port);
    expect(second.client.cluster.token).toBe(first.client.cluster.token);
    expect((await first.client.get(MAPS)).code).toBe(200);
    expect((await stat(join(directory, "state/credentials.json"))).mode & 0o777).toBe(0o600);
    expect((await stat(join(directory, "state/journal"))).mode & 0o777).toBe(0o600);
  });

  it("refuses a second owner of its state while it runs", async () => {
    await start();
    await expect(startApiServer({ directory, persist: true })).rejects.toMatchObject({
      fault: { code: "already_exists", kind: "API server" },
    });
  });

  it("continues after a clean stop, too", async () => {
    const kept = await (async () => {
      await using server = await startApiServer({ directory, persist: true });
      return (await clientOf(server).post(MAPS, configMap("kept"))).body;
    })();
    await using server = await startApiServer({ directory, persist: true });
    expect((await clientOf(server).get(`${MAPS}/kept`)).body).toEqual(kept);
  });

  it("collects the objects that the previous process left uncollected", async () => {
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: "gone", uid: "gone" };
    const metadata = { name: "child", namespace: "default", uid: "child", ownerReferences: [owner] };
    {
      using journal = openJournal({ directory: join(directory, "state"), onProblem: () => undefined });
      const store = makeObjectStore({ historyLimit: 1, journal });
      store.commit("/configmaps", "default/child", { apiVersion: "v1", kind: "ConfigMap", metadata });
    }
    await using server = await startApiServer({ directory, persist: true });
    const client = clientOf(server);
    await until("the child is gone", async () => (await client.get(`${MAPS}/child`)).code === 404);
  });
});

function clientOf(server: ApiServer): Api {
  return api({ ...server, kubeletCertificate: server.kubelet.certificate, collects: true });
}
