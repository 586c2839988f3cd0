import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { createServer, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startApiServer } from "@muster/devcluster";
import { SERVICES, type ServiceName } from "@muster/repo/services";
import { findFreePort, startNatsCluster, buildProcessEnv, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { startChild } from "../src/child.ts";
import { installDefinitions } from "../src/definitions.ts";
import { writePoolsFile } from "../src/elastic.ts";

const PATIENT = { timeoutMs: 120_000, everyMs: 100 };
/** Characters of the log of a service that has ended, for the failure of the test. */
const LAST_WORDS = 4000;
const ROOT = join(import.meta.dirname, "../../..");
/** The readiness check of each service that watches the API server before it is ready; the others watch nothing. */
const FIRST_LISTS: Partial<Record<ServiceName, string>> = {
  watcher: "[-]view the first list of pods is not complete",
  "job-controller": "[-]kinds the API server has not answered yet which kinds of job it has",
};

it(
  "every service waits for a leader of NATS, then for an API server that refuses and hangs, reports it, and becomes ready with them",
  { timeout: 400_000 },
  async () => {
    await using stack = new AsyncDisposableStack();
    const directory = stack.use(await mkdtempDisposable(join(tmpdir(), "muster-late-"))).path;
    await mkdir(join(directory, "logs"));
    const api = stack.use(await startApiServer({ directory: join(directory, "api") }));
    await installDefinitions(api.kubeconfig, join(ROOT, "deploy/crds"), new AbortController().signal);
    const gate = stack.use(await closedGate(api.kubeconfig, join(directory, "kubeconfig")));
    const nats = stack.use(await startNatsCluster(3));
    for (const index of [1, 2]) await nats.kill(index);

    const env = {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      MUSTER_NATS_REPLICAS: "3",
      MUSTER_KUBECONFIG: gate.kubeconfig,
      GATEWAY_ADDR: "127.0.0.1:0",
      PROVISION_KEY_FILE: join(directory, "engine.key"),
      ...(await cloudThatIsAway(directory)),
    };
    await writeFile(env.PROVISION_KEY_FILE, randomBytes(32).toString("hex"), { mode: 0o600 });
    const ended: string[] = [];
    const services = SERVICES.map((name) => {
      const entry = join(ROOT, `apps/${name}/src/main.ts`);
      const logFile = join(directory, `logs/${name}.log`);
      const child = startChild({ name, entry, env, logFile });
      stack.defer(() => child.stop());
      void child.exited.then(async (how) => {
        ended.push(`${name}: ${how}; ${(await readFile(logFile, "utf8")).slice(-LAST_WORDS)}`);
      });
      const address = child.line((line) =>
        line.includes('"msg":"started"') ? /"http":"([^"]+)"/.exec(line)?.[1] : undefined,
      );
      const readyz = async (): Promise<Response> => {
        if (ended.length > 0) throw new Error(ended.join("\n"));
        return fetch(`http://${await address}/readyz`);
      };
      const says = async (words: string): Promise<boolean> => (await (await readyz()).text()).includes(words);
      return { name, says, isReady: async () => (await readyz()).ok };
    });

    for (const { name, says } of services)
      await until(`${name} waits for a leader of JetStream`, () => says("[-]started waiting: "), PATIENT);
    for (const index of [1, 2]) await nats.start(index);
    for (const accept of ["refuse", "hang"] as const) {
      await gate.open(accept);
      for (const { name, says } of services) {
        const words = FIRST_LISTS[name];
        if (words !== undefined) await until(`${name} waits where connections ${accept}`, () => says(words), PATIENT);
      }
    }
    await gate.open("forward");
    for (const { name, isReady } of services) await until(`${name} is ready`, isReady, PATIENT);
    expect(ended).toEqual([]);
  },
);

/** An address that refuses connections, lets them hang, or forwards them to the API server, and a kubeconfig for it. */
async function closedGate(kubeconfig: string, copy: string) {
  const text = await readFile(kubeconfig, "utf8");
  const target = Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(text)?.[1]);
  const sockets = new Set<Socket>();
  let forwards = false;
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => undefined));
    if (!forwards) return;
    const onward = connect(target, "127.0.0.1").on("error", () => undefined);
    sockets.add(onward);
    socket.pipe(onward).pipe(socket);
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  const close = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  const port = await findFreePort();
  await writeFile(copy, text.replaceAll(`127.0.0.1:${target}`, `127.0.0.1:${port}`));
  return {
    kubeconfig: copy,
    open: async (accept: "refuse" | "hang" | "forward") => {
      close();
      forwards = accept === "forward";
      if (accept !== "refuse") await listen(port);
    },
    [Symbol.asyncDispose]: () => {
      close();
      return Promise.resolve();
    },
  };
}

/** Writes the pools of the node-scaler; their cloud is unreachable. */
async function cloudThatIsAway(directory: string): Promise<Record<string, string>> {
  const tokenFile = join(directory, "cloud.token");
  await writeFile(tokenFile, "token", { mode: 0o600 });
  const pools = [{ name: "elastic", max: 1, instanceTypes: [{ name: "small", cpu: "4", memory: "8Gi" }] }];
  return writePoolsFile(directory, { machines: { types: [] }, pools }, { url: "http://127.0.0.1:9", tokenFile });
}
